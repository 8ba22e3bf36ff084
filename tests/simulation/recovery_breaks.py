"""What keeps the quorum from before a recovery away from who has seen it, broken on purpose.

Same shape as `breaks.py`. Caught by one invariant alone (`test_recoveries.py`).
"""

from collections.abc import Callable

import pytest

from quorum_node.raft import begin_end_epoch, discovery, fetch_following, transitions, vote
from quorum_node.raft.messages import CurrentLeader, VoteRequest
from quorum_node.raft.replica_state import ReplicaState
from quorum_simulation import recovered

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def follow_the_older_quorum(patch: Patch) -> None:
    """A replica that knows a recovery compares epochs only, and follows old voters that have raised theirs above it.

    Would: have observers and clients follow two quorums of one cluster id, one after the other.
    """

    def never(replica: ReplicaState, leader: CurrentLeader) -> bool:
        return False

    for module in (discovery, fetch_following, transitions):
        patch.setattr(module, "is_of_older_quorum", never)


def elect_a_candidate_of_the_older_quorum(patch: Patch) -> None:
    """A voter that has seen a recovery gives its vote by epochs and logs alone.

    Would: let old voters that have led above the recovered epoch win with the vote of one that had joined the recovered quorum.
    """

    def never(replica: ReplicaState, request: VoteRequest) -> bool:
        return False

    patch.setattr(vote, "is_older_candidate", never)


def follow_a_leader_of_the_older_quorum(patch: Patch) -> None:
    """A BeginQuorumEpoch is followed without a comparison of recovered epochs.

    Would: move a replica that knows the recovery to the leader of the old voters, in any epoch above its own.
    """

    def never(replica: ReplicaState, reported: int) -> bool:
        return False

    patch.setattr(begin_end_epoch, "lacks_recovery", never)


def recover_in_the_next_epoch(patch: Patch) -> None:
    """`--recover` goes one epoch ahead of the survivor's.

    Would: let the next elections of old voters out of reach overtake the recovered quorum, for all who go by the epoch.
    """
    patch.setattr(recovered, "EPOCH_DISTANCE", 1)


BY_SIMULATION: tuple[Break, ...] = (recover_in_the_next_epoch,)
BY_TEST: tuple[tuple[Break, str], ...] = (
    (
        follow_the_older_quorum,
        "tests/unit/raft/test_raft_recovered_quorum.py::test_old_majority_is_rejected_with_epochs_above_the_recovered_ones",
    ),
    (
        elect_a_candidate_of_the_older_quorum,
        "tests/unit/raft/test_raft_recovered_quorum.py::test_old_voter_that_knows_the_recovery_does_not_elect_another_old_voter",
    ),
    (
        follow_a_leader_of_the_older_quorum,
        "tests/unit/raft/test_raft_recovered_quorum.py::test_begin_epoch_of_an_older_quorum_leader_is_ignored",
    ),
)
FAULTS_FOR: dict[Break, frozenset[str]] = {
    recover_in_the_next_epoch: frozenset({"recovery", "crash leader"}),
}
"""It matters after a recovery only."""
