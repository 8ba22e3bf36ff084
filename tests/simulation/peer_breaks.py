"""The code broken on purpose: claims of peers are accepted, or rejected where they must be accepted.

Same shape as `breaks.py`. A docstring says what is broken and, behind "Would:", what that would do.
"""

from collections.abc import Callable

import pytest

from quorum_node.raft import (
    begin_end_epoch,
    cluster_identity,
    membership,
    replica_state,
    transitions,
    vote,
)
from quorum_node.raft.epoch_bound import within_step

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def follow_any_claim_of_leadership(patch: Patch) -> None:
    """BeginQuorumEpoch of a newer epoch is accepted from any sender.

    Would: let any node that can connect replace the log of a follower, and show forged records as committed.
    """
    patch.setattr(begin_end_epoch, "_is_believed", lambda *_: True)


def take_any_epoch_of_a_request(patch: Patch) -> None:
    """A Vote raises the epoch to any value.

    Would: let one request use up the last epoch, and end all elections for good.
    """
    patch.setattr(vote, "within_step", lambda known, reported: True)


def ignore_distant_epochs_in_answers(patch: Patch) -> None:
    """An answer raises the epoch no further than a request.

    Would: refuse an honest voter that is far ahead for ever, and with it every leader that it elects.
    """

    def learned(known: int, reported: int) -> int:
        return max(known, reported) if within_step(known, reported) else known

    patch.setattr(transitions, "learned", learned)


def stop_for_a_single_refusal(patch: Patch) -> None:
    """A replica stops when a single peer rejects its cluster id.

    Would: let one lying peer, or an address that was given to another cluster, stop the whole quorum.
    """
    patch.setattr(cluster_identity, "majority", lambda members: 1)


def drop_the_leader_of_an_election(patch: Patch) -> None:
    """A voter that voted for the winner never writes who won.

    Would: accept a second leader of the epoch after a restart, and look for the first one at the wrong node.
    """
    patch.setattr(replica_state.ReplicaState, "save_leader", lambda state: None)


def let_anyone_update_a_voter(patch: Patch) -> None:
    """UpdateVoter is carried out for any epoch, and for the leader's entry, too.

    Would: let an unknown node redirect a voter's traffic by one request.
    """
    patch.setattr(membership.safety, "check_update", lambda state, request: None)


_UNIT = "tests/unit/raft/test_raft_"
BY_SCENARIO: tuple[tuple[Break, str], ...] = (
    (follow_any_claim_of_leadership, "unknown-replica-claims-to-lead"),
)
BY_TEST: tuple[tuple[Break, str], ...] = (
    (
        take_any_epoch_of_a_request,
        f"{_UNIT}epoch_bound.py::test_largest_int32_epoch_is_never_used",
    ),
    (
        ignore_distant_epochs_in_answers,
        f"{_UNIT}epoch_bound.py::test_voter_with_a_much_newer_epoch_is_accepted_in_responses",
    ),
    (
        stop_for_a_single_refusal,
        f"{_UNIT}cluster_identity.py::test_single_lying_peer_stops_no_replica",
    ),
    (
        drop_the_leader_of_an_election,
        f"{_UNIT}saved_leader.py::test_leader_is_saved_by_leader_and_followers",
    ),
    (
        let_anyone_update_a_voter,
        f"{_UNIT}membership.py::test_update_voter_changes_endpoints_without_losing_the_quorum",
    ),
)
