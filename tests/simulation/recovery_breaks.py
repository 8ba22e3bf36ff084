"""What keeps the quorum from before a recovery away from who has seen it, broken on purpose.

Same shape as `breaks.py`. Caught by one invariant alone (`test_recoveries.py`).
"""

from collections.abc import Callable

import pytest

from quorum_node.raft import discovery, fetch_following, transitions
from quorum_node.raft.messages import CurrentLeader
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.simulation import recovered

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def follow_the_older_quorum(patch: Patch) -> None:
    """Who has seen a recovery goes by the epoch alone, and follows old voters that have lifted theirs above it.

    Would: have observers and clients believe two quorums of one cluster id, one after the other.
    """

    def never(replica: ReplicaState, leader: CurrentLeader) -> bool:
        return False

    for module in (discovery, fetch_following, transitions):
        patch.setattr(module, "is_of_older_quorum", never)


def recover_in_the_next_epoch(patch: Patch) -> None:
    """`--recover` goes one epoch ahead of the survivor's.

    Would: let the next elections of old voters out of reach overtake the recovered quorum, for all who go by the epoch.
    """
    patch.setattr(recovered, "EPOCH_DISTANCE", 1)


BY_SIMULATION: tuple[Break, ...] = (recover_in_the_next_epoch,)
BY_TEST: tuple[tuple[Break, str], ...] = (
    (
        follow_the_older_quorum,
        "tests/unit/raft/test_raft_recovered_quorum.py::test_it_is_refused_also_with_epochs_above_the_recovered_ones",
    ),
)
FAULTS_FOR: dict[Break, frozenset[str]] = {
    recover_in_the_next_epoch: frozenset({"recovery", "kill"}),
}
"""It matters after a recovery only."""
