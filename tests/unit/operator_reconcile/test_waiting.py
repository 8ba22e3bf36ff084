"""The time that a resource waits for others within the operator is measured, and nothing else is."""

import asyncio
from collections.abc import Callable

import pytest

from quorum_operator import workers as module
from quorum_operator.kube.errors import Unavailable
from quorum_operator.metrics import Metrics
from quorum_operator.reconcile import Next
from quorum_operator.workers import Workers
from support.virtual_time import run

SUM = "metadataquorum_operator_reconcile_wait_seconds_sum"
COUNT = "metadataquorum_operator_reconcile_wait_seconds_count"


class TimedReconcile:
    """Each reconcile takes so long; `begun` are the times at which they began."""

    def __init__(self, seconds: float, due: Callable[[], Next]) -> None:
        self.begun: list[tuple[str, float]] = []
        self._seconds, self._due = seconds, due

    async def reconcile(self, namespace: str, name: str) -> Next:
        self.begun.append((name, asyncio.get_running_loop().time()))
        await asyncio.sleep(self._seconds)
        return self._due()


def value_of(metrics: Metrics, name: str) -> float:
    return metrics.registry.get_sample_value(name) or 0.0


def after(
    reconciling: TimedReconcile, seconds: float, names: str, woken_at: tuple[float, ...]
) -> Metrics:
    """The metric when so much time has passed; the first of them is triggered at these times."""
    metrics = Metrics()

    async def story() -> None:
        workers = Workers("MetadataQuorum", reconciling, metrics, 60.0)
        for name in names:
            workers.ensure("s", name)
        for at in woken_at:
            await asyncio.sleep(at - asyncio.get_running_loop().time())
            workers.wake("s", names[0])
        await asyncio.sleep(seconds - asyncio.get_running_loop().time())
        await workers.stop()

    run(story())
    return metrics


@pytest.mark.requirement("OP-03")
def test_waiting_time_starts_at_the_due_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SIDE_BY_SIDE", 1)
    takes = TimedReconcile(5.0, Next)
    metrics = after(takes, 50.0, "abc", ())
    assert takes.begun == [("a", 0.0), ("b", 5.0), ("c", 10.0)]
    assert (value_of(metrics, COUNT), value_of(metrics, SUM)) == (3, 15.0)


def test_trigger_during_a_reconcile_is_due_when_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SIDE_BY_SIDE", 1)
    takes = TimedReconcile(5.0, Next)
    metrics = after(takes, 50.0, "ab", (1.0, 20.0))
    assert takes.begun == [("a", 0.0), ("b", 5.0), ("a", 10.0), ("a", 20.0)]
    # b waited for a, then a for b: since it had ended.
    assert (value_of(metrics, COUNT), value_of(metrics, SUM)) == (4, 10.0)


def test_own_limits_and_pauses_do_not_count_as_waiting_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RECONCILES_AT_ONCE", 1)
    monkeypatch.setattr(module, "RECONCILES_PER_S", 0.5)
    metrics = after(TimedReconcile(0.0, lambda: Next(0.5)), 50.0, "a", ())
    assert value_of(metrics, COUNT) == 25
    assert value_of(metrics, SUM) == 0.0


def test_backoff_after_an_error_does_not_count_as_waiting() -> None:
    def fail() -> Next:
        raise Unavailable(503, "ServiceUnavailable", "")

    metrics = after(TimedReconcile(0.0, fail), 50.0, "a", (0.5, 1.5, 2.5))
    assert (value_of(metrics, COUNT), value_of(metrics, SUM)) == (1, 0.0)


@pytest.mark.requirement("OP-03")
def test_periodic_reconciles_do_not_delay_triggered_ones() -> None:
    """Every call takes so long that idle reconciles would take all slots."""
    takes = TimedReconcile(10.0, Next)
    names = [f"q{number}" for number in range(100)]
    woken: list[tuple[str, float]] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        workers = Workers("MetadataQuorum", takes, Metrics(), 10.0)
        for name in names:
            workers.ensure("s", name)
        for at in (300.0, 301.0, 306.0, 313.0):
            await asyncio.sleep(at - loop.time())
            running = {name for name, begun in takes.begun if begun > at - 10.0}
            name = next(each for each in reversed(names) if each not in running)
            workers.wake("s", name)
            woken.append((name, at))
        await asyncio.sleep(1000.0)
        await workers.stop()

    run(story())
    for each in woken:
        assert each in takes.begun, each
    assert {name for name, begun in takes.begun if begun > 350.0} == set(names), (
        "a quorum was not reconciled"
    )


@pytest.mark.parametrize("woken_every_s", [3.1, 7.3, 23.9])
def test_idle_reconcile_releases_its_slot_for_every_outcome(
    woken_every_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its turn, woken while it waits for a place, or stopped."""
    monkeypatch.setattr(module, "RESTING_AT_ONCE", 1)

    async def story(until: float) -> None:
        workers = Workers("MetadataQuorum", TimedReconcile(10.0, Next), Metrics(), 10.0)
        now = asyncio.get_running_loop().time
        for name in "abcde":
            workers.ensure("s", name)
        number = 0
        while now() < until:
            await asyncio.sleep(min(woken_every_s, until - now()))
            workers.wake("s", "abcde"[number % 5])
            number += 1
        await workers.stop()
        assert workers._resting._value == 1, until
        assert workers._places._value == module.SIDE_BY_SIDE, until

    for stopped_at in range(15, 300, 19):
        run(story(float(stopped_at)))
