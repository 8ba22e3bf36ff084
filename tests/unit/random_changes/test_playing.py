"""A round's actions in their time: each temporary fault is reverted once, whatever happens to the others."""

from collections.abc import Callable
from typing import cast

from support.random_changes import running
from support.random_changes.act import Act, Doing, Drawn
from support.random_changes.drawing import Round
from support.random_changes.operations import Operations, TargetMissing
from support.seeded_rounds import ActionLog


class _Operations:
    def await_restart(self) -> None:
        """Nothing was killed."""


_OPERATIONS = cast(Operations, _Operations())


def play(*drawn: Drawn) -> list[str]:
    action_log = ActionLog(lambda text: None)
    running.play(_OPERATIONS, Round(1, 3, "Auto", "Retain", "None", drawn), action_log)
    return [line.partition("] ")[2] for line in action_log.lines]


def drawn(
    do: Callable[[Operations, Drawn], Doing], at_s: float, lasts_s: float | None = None
) -> Drawn:
    name = do.__name__
    return Drawn(Act(name, "test", name, do), at_s, lasts_s, 0, False, 0)


def test_actions_overlap_and_temporary_faults_end_in_time() -> None:
    reported: list[str] = []

    def long(operations: Operations, drawn: Drawn) -> Doing:
        reported.append("long begins")
        yield "long"
        reported.append("long ends")

    def short(operations: Operations, drawn: Drawn) -> Doing:
        reported.append("short begins")
        yield "short"
        reported.append("short ends")

    play(drawn(long, 0.0, 0.2), drawn(short, 0.05, 0.05))
    assert reported == ["long begins", "short begins", "short ends", "long ends"]


def test_others_wait_for_the_end_of_one_that_halts_the_api_server() -> None:
    reported: list[str] = []

    def short(operations: Operations, drawn: Drawn) -> Doing:
        reported.append("short begins")
        yield "short"
        reported.append("short ends")

    def frozen(operations: Operations, drawn: Drawn) -> Doing:
        reported.append("frozen begins")
        yield "frozen"
        reported.append("frozen ends")

    def late(operations: Operations, drawn: Drawn) -> Doing:
        reported.append("late begins")
        yield "late"

    halting = Act("frozen", "test", "frozen", frozen, halts=True)
    play(
        drawn(short, 0.0, 0.1),
        Drawn(halting, 0.05, 0.2, 0, False, 0),
        drawn(late, 0.15),
    )
    assert reported == ["short begins", "frozen begins", "frozen ends", "short ends", "late begins"]


def test_permanent_action_is_not_reverted() -> None:
    reported: list[str] = []

    def stays(operations: Operations, drawn: Drawn) -> Doing:
        yield "stays"
        reported.append("taken back")

    assert play(drawn(stays, 0.0)) == ["stays: stays"]
    assert reported == []


def test_missing_object_is_noted_and_the_round_continues() -> None:
    def nothing(operations: Operations, drawn: Drawn) -> Doing:
        if drawn.lasts_s:
            raise TargetMissing("no pod")
        yield "never"

    def something(operations: Operations, drawn: Drawn) -> Doing:
        yield "done"

    assert play(drawn(nothing, 0.0, 0.1), drawn(something, 0.01)) == [
        "nothing: not done: no pod",
        "something: done",
    ]


def test_temporary_fault_is_reverted_if_a_later_action_fails() -> None:
    reported: list[str] = []

    def temporary_act(operations: Operations, drawn: Drawn) -> Doing:
        yield "begun"
        reported.append("taken back")

    def broken(operations: Operations, drawn: Drawn) -> Doing:
        if drawn.at_s:
            raise KeyError("a bug of the test")
        yield "never"

    try:
        play(drawn(temporary_act, 0.0, 9.0), drawn(broken, 0.01))
    except KeyError:
        reported.append("raised")
    assert reported == ["taken back", "raised"]
