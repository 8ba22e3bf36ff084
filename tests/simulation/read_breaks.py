"""Reads broken in ways that only one test is made for; see breaks.py."""

from collections.abc import Callable

import pytest

from quorum_node.raft import reads, remote_reads
from quorum_node.raft.leadership import Leader
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.unfinished import RemoteRead

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]
_UNIT = "tests/unit/raft/test_raft_"


def ignore_that_a_round_was_sent(patch: Patch) -> None:
    """A read shares an answer round that was sent before the read began.

    Would: accept an echo from before the read as a later confirmation.
    """
    patch.setattr(Leader, "report_round", lambda leader: leader.answer_round)


def let_observers_confirm(patch: Patch) -> None:
    """Echoes of observers count towards the majority that confirms a read.

    Would: let a leader confirm reads that no voter follows any more.
    """
    real = reads._majority_round

    def any_two(state: ReplicaState, leader: Leader, voters: object) -> float:
        echoes = sorted((each.answer for each in leader.progress.values()), reverse=True)
        return max(real(state, leader, voters), *echoes[:1])  # type: ignore[arg-type]

    patch.setattr(reads, "_majority_round", any_two)


def never_query_the_new_leader(patch: Patch) -> None:
    """A read that was put to a leader which is replaced waits for that one.

    Would: make every read that is under way in an election wait for its timeout.
    """

    def lost(state: ReplicaState, read: RemoteRead, failure: object) -> None:
        read.question = -1

    patch.setattr(remote_reads, "_question_failed", lost)


BY_TEST: tuple[tuple[Break, str], ...] = (
    (
        ignore_that_a_round_was_sent,
        f"{_UNIT}reads.py::test_round_sent_with_a_diverging_response_counts_as_sent",
    ),
    (let_observers_confirm, f"{_UNIT}reads.py::test_observers_do_not_confirm_reads"),
    (
        never_query_the_new_leader,
        f"{_UNIT}remote_reads.py::test_read_sent_to_the_old_leader_is_sent_to_the_new_one",
    ),
)
