"""Code that accepts every claim; see `faults/forgeries.py`, `forged_answers.py` and `forged_requests.py`.

Same shape as `breaks.py`. A docstring says what is broken and, behind "Would:", what that would do.
"""

from collections.abc import Callable
from typing import Any

import pytest

from quorum_node.raft import (
    begin_end_epoch,
    fetch_serving,
    reads,
    safety,
    transitions,
    vote,
)
from quorum_node.raft import replica as replica_module
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import ResponseReceived
from quorum_node.raft.outputs import HaltReason
from quorum_node.raft.replica_state import ReplicaState

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def take_any_epoch(patch: Patch) -> None:
    """A request raises a known epoch as far as it likes.

    Would: let one message take the epochs of all elections to come.
    """
    for module in (vote, begin_end_epoch, fetch_serving):
        patch.setattr(module, "within_step", lambda known, reported: True)


def follow_every_begin_quorum_epoch(patch: Patch) -> None:
    """Every BeginQuorumEpoch of a newer epoch is followed.

    Would: make followers leave their live leader, for one that does not exist.
    """
    patch.setattr(begin_end_epoch, "_is_believed", lambda replica, claimed, endpoint: True)


def accept_every_end_quorum_epoch(patch: Patch) -> None:
    """EndQuorumEpoch ends its epoch, whichever node sent it.

    Would: let any node depose a live leader repeatedly.
    """
    real = begin_end_epoch._end_error

    def broken(replica: ReplicaState, request: Any) -> RaftError:
        error = real(replica, request)
        return RaftError.NONE if request.leader_epoch == replica.epoch else error

    patch.setattr(begin_end_epoch, "_end_error", broken)


def update_a_voter_for_anyone(patch: Patch) -> None:
    """UpdateVoter is carried out whoever sends it, and in whatever epoch.

    Would: let an unknown node redirect a voter's traffic, or end the leader, by one request.
    """
    patch.setattr(safety, "check_update", lambda state, request: None)


def believe_a_report_of_damage(patch: Patch) -> None:
    """A leader gives its disk up when a follower reports damaged records, without reading them again.

    Would: let one request without authentication condemn a healthy disk.
    """
    real = fetch_serving.answer

    def believed(replica: Any, leader: Any, request_id: int, request: Any, **how: Any) -> None:
        if request.corrupt:
            replica.halt(HaltReason.STORAGE_FAILED, "a follower reported damaged records")
        else:
            real(replica, leader, request_id, request, **how)

    patch.setattr(fetch_serving, "answer", believed)


def adopt_any_epoch_of_an_answer(patch: Patch) -> None:
    """An answer raises the epoch as far as it likes.

    Would: let one false answer use up the epochs of all elections to come.
    """
    patch.setattr(transitions, "learned", lambda known, told: max(known, told))


def take_an_answer_for_any_question(patch: Patch) -> None:
    """An answer whose number belongs to no request counts for the oldest request of its type.

    Would: let anybody who can inject an answer vote in the name of a voter, or lead in the name of the leader.
    """
    real = replica_module._HANDLERS[ResponseReceived]

    def of_its_type(replica: ReplicaState, event: ResponseReceived) -> None:
        if event.correlation not in replica.outstanding:
            wanted = type(event.response).__name__.replace("Response", "Request")
            sent = replica.outstanding.items()
            found = (number for number, each in sent if type(each.request).__name__ == wanted)
            event = ResponseReceived(next(found, event.correlation), event.response)
        real(replica, event)  # type: ignore[arg-type]

    patch.setitem(replica_module._HANDLERS, ResponseReceived, of_its_type)


def stop_for_a_foreign_question(patch: Patch) -> None:
    """A replica stops when a request for a read offset names another cluster.

    Would: let a client with a wrong address stop one node after the other.
    """
    real = reads.handle_read_offset

    def strict(replica: ReplicaState, request_id: int, request: Any) -> bool:
        if request.cluster_id not in (None, replica.cluster_id):
            replica.halt(HaltReason.CORRUPTION, "a request of another cluster")
        return real(replica, request_id, request)

    patch.setattr(reads, "handle_read_offset", strict)


def add_a_voter_without_an_address(patch: Patch) -> None:
    """AddVoter is accepted with any list of addresses, also an empty one.

    Would: end the leader's process by one request.
    """
    patch.setattr(safety, "check_endpoints", lambda key, endpoints: None)


def leave_a_misled_voter_alone(patch: Patch) -> None:
    """A leader does nothing for a voter that is bound to a false leader of its epoch.

    Would: keep that voter out, also over restarts, until the next election by chance.
    """
    patch.setattr(begin_end_epoch, "_help_misled_voter", lambda replica, leader, key: None)


def never_doubt_a_leader_that_is_gone(patch: Patch) -> None:
    """A replica that is no voter stays bound to a false leader of the epoch that does not respond any more.

    Would: keep a new member out until the next election by chance.
    """
    patch.setattr(ReplicaState, "doubt_epoch_leader", lambda replica: None)


BY_SIMULATION: tuple[Break, ...] = (
    take_any_epoch,
    follow_every_begin_quorum_epoch,
    update_a_voter_for_anyone,
    believe_a_report_of_damage,
    adopt_any_epoch_of_an_answer,
    take_an_answer_for_any_question,
    stop_for_a_foreign_question,
    add_a_voter_without_an_address,
    leave_a_misled_voter_alone,
    never_doubt_a_leader_that_is_gone,
)
BY_TEST: tuple[tuple[Break, str], ...] = (
    (
        accept_every_end_quorum_epoch,
        "tests/unit/raft/test_raft_epochs.py::test_unknown_leader_cannot_end_the_epoch",
    ),
)
FAULTS_FOR: dict[Break, frozenset[str]] = {
    take_any_epoch: frozenset({"forged votes"}),
    follow_every_begin_quorum_epoch: frozenset({"forged leaders"}),
    update_a_voter_for_anyone: frozenset({"forged addresses"}),
    believe_a_report_of_damage: frozenset({"forged fetches"}),
    adopt_any_epoch_of_an_answer: frozenset({"altered answers"}),
    take_an_answer_for_any_question: frozenset({"answers to nothing"}),
    stop_for_a_foreign_question: frozenset({"forged questions"}),
    add_a_voter_without_an_address: frozenset({"forged changes"}),
    leave_a_misled_voter_alone: frozenset({"false leaders"}),
    never_doubt_a_leader_that_is_gone: frozenset({"false leaders"}),
}
"""No other kind of fault shows them."""
