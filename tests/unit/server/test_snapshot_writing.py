"""The pace of a snapshot: whoever writes it rests for as long as the rest of the process works."""

from dataclasses import dataclass, field

import pytest

from quorum_node.server import snapshot_writing

VALUE_SECONDS = 0.00001
VALUES = 4000


@dataclass
class Clocks:
    """Every value takes 10 µs; beside it the other threads work `others` of the time, while it rests `at_rest` of it."""

    others: float
    at_rest: float
    now: float = 0.0
    worked: float = 0.0
    rests: list[float] = field(default_factory=list)

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.worked

    def thread_time(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds
        self.worked += self.at_rest * seconds

    def value_is_made(self) -> None:
        self.now += VALUE_SECONDS
        self.worked += self.others * VALUE_SECONDS


def written(monkeypatch: pytest.MonkeyPatch, clocks: Clocks) -> Clocks:
    monkeypatch.setattr(snapshot_writing, "time", clocks)
    values = (b"%d" % number for number in range(VALUES))
    for number, value in enumerate(snapshot_writing._paced(values)):
        assert value == b"%d" % number
        clocks.value_is_made()
    return clocks


def test_beside_an_idle_loop_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert written(monkeypatch, Clocks(others=0.01, at_rest=0.01)).rests == []


def test_beside_a_busy_loop_it_takes_half_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = written(monkeypatch, Clocks(others=0.6, at_rest=1.0))
    assert 0.4 < sum(clocks.rests) / clocks.now < 0.5
    assert max(clocks.rests) <= 0.0003


def test_it_rests_as_long_as_the_others_work(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = written(monkeypatch, Clocks(others=0.2, at_rest=0.0))
    assert 0.1 < sum(clocks.rests) / clocks.now < 0.25
    assert sum(clocks.rests) == pytest.approx(clocks.worked, rel=0.05)
