"""The trial's own parts: what counts as healthy, waiting with a message, the table."""

import copy
from typing import Any

import pytest

from support.kind_env.quorum import described
from support.kind_env.timeline import table
from support.kind_env.waiting import NotInTime, stays, wait_for

HEALTHY: dict[str, Any] = {
    "leaderId": 1,
    "leaderUuid": "u1",
    "leaderEpoch": 4,
    "highWatermark": 10,
    "pendingChange": False,
    "ownEpochCommitted": True,
    "votersPosition": {"offset": 7, "epoch": 4, "committed": True},
    "formed": True,
    "voters": [
        {"id": number, "uuid": f"u{number}", "fetching": True, "caughtUp": True}
        for number in (1, 2, 3)
    ],
}


def changed(path: list[str | int], value: object) -> dict[str, Any]:
    document = copy.deepcopy(HEALTHY)
    inner: Any = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


def test_three_of_three_live_voters_are_healthy() -> None:
    now = described(HEALTHY)
    assert now.healthy(3)
    assert not now.healthy(5)
    assert now.keys == {(1, "u1"), (2, "u2"), (3, "u3")}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["pendingChange"], True),
        (["ownEpochCommitted"], False),
        (["votersPosition", "committed"], False),
        (["formed"], False),
        (["voters", 2, "fetching"], False),
        (["voters", 2, "caughtUp"], False),
        (["voters", 2, "id"], 1),
    ],
)
def test_incomplete_state_is_not_healthy(path: list[str | int], value: object) -> None:
    assert not described(changed(path, value)).healthy(3)


def test_timeout_reports_the_last_observed_state() -> None:
    with pytest.raises(NotInTime, match="waited 0 s for the moon; seen last: clouds"):
        wait_for("the moon", lambda: None, timeout_s=0, seen=lambda: "clouds")


def test_state_that_does_not_last_is_detected() -> None:
    answers = iter([True, True, False])
    with pytest.raises(AssertionError, match="did not last"):
        stays("calm", lambda: next(answers), for_s=10, poll_s=0)


def test_table_columns_are_aligned() -> None:
    text = table(["step", "took"], [["create", "1.0 s"], ["kill the leader", "12.0 s"]])
    assert text.splitlines() == [
        "step               took",
        "---------------  ------",
        "create            1.0 s",
        "kill the leader  12.0 s",
    ]
