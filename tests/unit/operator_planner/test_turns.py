"""One PartitionReassignment of a quorum at a time, the oldest first; who is next is woken."""

from typing import Any

from quorum_operator.turns import Place, Turns

A, B, C = (Place("n", each) for each in "abc")


def body(created: int, *, quorum: str = "q", phase: str | None = None, **spec: Any) -> Any:
    return {
        "metadata": {"creationTimestamp": f"2026-01-01T00:00:0{created}Z"},
        "spec": {"quorum": quorum, **spec},
        "status": {"phase": phase} if phase else None,
    }


def test_the_oldest_goes_first_and_the_name_decides_between_two() -> None:
    turns = Turns()
    assert turns.note(B, body(2)) is None
    assert turns.note(C, body(2)) is None
    assert turns.ahead_of(B, "q") is None
    assert turns.ahead_of(C, "q") == "b"
    assert turns.note(A, body(1)) is None
    assert turns.ahead_of(B, "q") == "a"
    assert turns.ahead_of(A, "q") is None


def test_the_next_is_named_when_one_ends_pauses_or_goes() -> None:
    turns = Turns()
    for place, created in ((A, 1), (B, 2), (C, 3)):
        turns.note(place, body(created))
    assert turns.note(A, body(1, phase="Running")) is None
    assert turns.note(A, body(1, phase="Completed")) == B
    assert turns.note(B, body(2, paused=True)) == C
    assert turns.forget(C) is None
    assert turns.ahead_of(C, "q") is None
    assert turns.note(B, body(2)) is None
    assert turns.note(C, body(3)) is None
    assert turns.forget(B) == C
    assert turns.forget(B) is None


def test_one_that_is_being_deleted_holds_nobody_up() -> None:
    turns = Turns()
    turns.note(A, body(1))
    turns.note(B, body(2))
    leaving = body(1)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    assert turns.note(A, leaving) == B
    assert turns.ahead_of(B, "q") is None


def test_quorums_and_namespaces_do_not_wait_for_each_other() -> None:
    turns = Turns()
    turns.note(A, body(1))
    turns.note(B, body(2, quorum="other"))
    turns.note(Place("m", "b"), body(2))
    assert turns.ahead_of(B, "other") is None
    assert turns.ahead_of(Place("m", "b"), "q") is None
