"""One PartitionReassignment of a quorum at a time, the oldest first; who is next is woken."""

from typing import Any

from quorum_operator.namespaced_name import NamespacedName
from quorum_operator.turns import Turns

A, B, C = (NamespacedName("n", each) for each in "abc")


def body(created: int, *, quorum: str = "q", phase: str | None = None, **spec: Any) -> Any:
    return {
        "metadata": {"creationTimestamp": f"2026-01-01T00:00:0{created}Z"},
        "spec": {"quorum": quorum, **spec},
        "status": {"phase": phase} if phase else None,
    }


class NotifiedPlaces(list[NamespacedName]):
    """Whom the turns woke since the last look."""

    def taken(self) -> list[NamespacedName]:
        found = list(self)
        self.clear()
        return found


def made() -> tuple[Turns, NotifiedPlaces]:
    woken = NotifiedPlaces()
    return Turns(woken.append), woken


def test_oldest_reassignment_runs_first_and_ties_are_ordered_by_name() -> None:
    turns, woken = made()
    turns.note(B, body(2))
    assert woken.taken() == []
    turns.note(C, body(2))
    assert turns.ahead_of(B, "q") is None
    assert turns.ahead_of(C, "q") == "b"
    turns.note(A, body(1))
    assert turns.ahead_of(B, "q") == "a"
    assert turns.ahead_of(A, "q") is None
    assert woken.taken() == []


def test_invalid_reassignment_lets_others_go_first_until_its_spec_changes() -> None:
    turns, woken = made()
    first, second = body(1), body(2)
    first["metadata"] |= {"uid": "a", "generation": 1}
    turns.note(A, first)
    turns.note(B, second)
    assert turns.ahead_of(B, "q") == "a"
    turns.skip_invalid(A, first)
    assert woken.taken() == [B]
    # The watch reports the new status: still the same spec.
    turns.note(A, first)
    assert turns.ahead_of(B, "q") is None
    assert woken.taken() == []
    first["metadata"]["generation"] = 2
    turns.note(A, first)
    assert turns.ahead_of(B, "q") == "a"
    turns.skip_invalid(A, first)
    turns.forget(A)
    turns.note(A, first)
    assert turns.ahead_of(B, "q") == "a", "another resource of that name, not checked yet"


def test_resource_without_a_spec_is_recorded() -> None:
    turns, _ = made()
    for spec in ({}, {"spec": None}):
        turns.note(A, {"metadata": {}, **spec})
    assert turns.ahead_of(B, "") == "a"


def test_next_reassignment_is_triggered_when_one_completes_pauses_or_is_deleted() -> None:
    turns, woken = made()
    for place, created in ((A, 1), (B, 2), (C, 3)):
        turns.note(place, body(created))
    turns.note(A, body(1, phase="Running"))
    assert woken.taken() == []
    turns.note(A, body(1, phase="Completed"))
    assert woken.taken() == [B]
    turns.note(B, body(2, paused=True))
    assert woken.taken() == [C]
    turns.forget(C)
    assert turns.ahead_of(C, "q") is None
    turns.note(B, body(2))
    turns.note(C, body(3))
    assert woken.taken() == []
    turns.forget(B)
    assert woken.taken() == [C]
    turns.forget(B)
    assert woken.taken() == []


def test_next_reassignment_is_triggered_once_by_worker_or_watch() -> None:
    """A worker sees the end that it wrote before the watch does."""
    turns, woken = made()
    turns.note(A, body(1, phase="Running"))
    turns.note(B, body(2))
    turns.forget(A)
    assert woken.taken() == [B]
    turns.note(A, body(1, phase="Completed"))
    assert woken.taken() == []
    assert turns.ahead_of(B, "q") is None


def test_reassignment_being_deleted_does_not_block_others() -> None:
    turns, woken = made()
    turns.note(A, body(1))
    turns.note(B, body(2))
    leaving = body(1)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    turns.note(A, leaving)
    assert woken.taken() == [B]
    assert turns.ahead_of(B, "q") is None


def test_quorums_and_namespaces_do_not_wait_for_each_other() -> None:
    turns, _ = made()
    turns.note(A, body(1))
    turns.note(B, body(2, quorum="other"))
    turns.note(NamespacedName("m", "b"), body(2))
    assert turns.ahead_of(B, "other") is None
    assert turns.ahead_of(NamespacedName("m", "b"), "q") is None
