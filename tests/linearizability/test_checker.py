"""The checker: which histories are linearizable, and what each outcome means for a history."""

from pathlib import Path

import pytest

from support.linearizability import checker
from support.linearizability.clients import certainly_failed, values_read
from support.linearizability.history import Fault, Group, Operation
from support.workload.target import Answer, Lost, NotSent

W, R = "write", "read"


def history(
    *steps: tuple[str, dict[int, str], int, int] | tuple[str, dict[int, str], int],
) -> Group:
    """Steps (what, registers, call, return), each by a client of its own; no return: open."""
    group = Group("case")
    for client, (what, registers, call, *end) in enumerate(steps):
        write = registers if what == W else {}
        read = registers if what == R else {}
        group.add(
            Operation(client, 1, write, read, call, end[0] if end else call + 1, open=not end)
        )
    return group


LEGAL = {
    "nothing was ever written": history((R, {0: ""}, 1, 2)),
    "a read sees the last write": history((W, {0: "a"}, 1, 2), (R, {0: "a"}, 3, 4)),
    "a concurrent read sees either": history(
        (W, {0: "a"}, 1, 9), (R, {0: ""}, 2, 3), (R, {0: "a"}, 4, 5)
    ),
    "an open write is seen late": history(
        (W, {0: "a"}, 1), (R, {0: ""}, 50, 60), (R, {0: "a"}, 70, 80)
    ),
    "an open write is never seen": history((W, {0: "a"}, 1), (R, {0: ""}, 50, 60)),
    "two registers at once": history((W, {0: "a", 1: "b"}, 1, 2), (R, {0: "a", 1: "b"}, 3, 4)),
}
ILLEGAL = {
    "a read is stale": history((W, {0: "a"}, 1, 2), (R, {0: ""}, 3, 4)),
    "reads go back": history((W, {0: "a"}, 1, 9), (R, {0: "a"}, 2, 3), (R, {0: ""}, 4, 5)),
    "an open write was seen and is gone": history(
        (W, {0: "a"}, 1), (R, {0: "a"}, 50, 60), (R, {0: ""}, 70, 80)
    ),
    "a value came before its write": history((R, {0: "a"}, 1, 2), (W, {0: "a"}, 3, 4)),
    "a batch was torn": history((W, {0: "a", 1: "b"}, 1, 9), (R, {0: "a", 1: ""}, 2, 3)),
}


def judged(group: Group, pictures: Path) -> checker.Verdict:
    (verdict,) = checker.check([group], pictures)
    return verdict


@pytest.mark.parametrize("name", LEGAL)
def test_linearizable_histories_are_accepted(name: str, tmp_path: Path) -> None:
    assert judged(LEGAL[name], tmp_path).result == "Ok"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ILLEGAL)
def test_other_histories_are_rejected_with_a_picture(name: str, tmp_path: Path) -> None:
    group = ILLEGAL[name]
    group.faults.append(Fault("the fault", 1, 2))
    verdict = judged(group, tmp_path)
    assert verdict.result == "Illegal"
    assert verdict.picture == str(tmp_path / "case.html")
    page = Path(verdict.picture).read_text()
    assert "the fault" in page
    assert "<script src" not in page, "the page loads other files"


@pytest.mark.parametrize(
    ("outcome", "nothing_done"),
    [
        (NotSent("refused"), True),
        (Answer(409, {"code": "NOT_FORMED"}), True),
        (Answer(503, {"code": "NO_LEADER"}), True),
        (Answer(503, {"code": "NOT_LEADER"}), True),
        (Answer(503, {"code": "LEADERSHIP_LOST"}), False),
        (Answer(503, {"code": "SHUTTING_DOWN"}), False),
        (Answer(504, {"code": "TIMED_OUT"}), False),
        (Lost("no answer"), False),
    ],
)
def test_write_is_open_unless_it_certainly_failed(outcome: object, nothing_done: bool) -> None:
    assert certainly_failed(outcome) is nothing_done  # type: ignore[arg-type]


def test_value_returned_by_a_read_is_parsed() -> None:
    assert values_read(Answer(200, {"value": "a", "offset": 7}), 1) == {1: "a"}
    assert values_read(Answer(404, {"code": "NOT_FOUND"}), 0) == {0: ""}
    entries = [{"name": "r1", "value": "b"}]
    assert values_read(Answer(200, {"entries": entries}), None) == {0: "", 1: "b"}
    for failed in (Answer(503, {"code": "NOT_CONFIRMED"}), Answer(404, {}), Lost("no answer")):
        assert values_read(failed, None) is None
