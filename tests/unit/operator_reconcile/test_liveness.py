"""`/healthz` reports whether the operator works: no resource, and no API server, makes it fail."""

import asyncio
import json
from typing import Any

import pytest

from quorum_operator import metrics as metrics_module
from quorum_operator.application import STALE_AFTER_S, Application
from quorum_operator.kube.errors import Forbidden, Unavailable
from quorum_operator.metrics import Reconciled
from quorum_operator.reconcile import Next
from quorum_operator.settings import Settings
from quorum_operator.workers import Workers

GOOD, BAD = Reconciled("MetadataQuorum", "a", "good"), Reconciled("MetadataQuorum", "b", "bad")


class Clock:
    """Replaces the module `time`, and `monotonic`. Tests set `wall`."""

    now = 5_000.0
    wall = 0.0

    def time(self) -> float:
        return self.now + self.wall

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(metrics_module, "time", made)
    monkeypatch.setattr(metrics_module, "monotonic", made.monotonic)
    return made


def health(operator: Application) -> tuple[int, dict[str, Any]]:
    unused: Any = None
    answer = asyncio.run(operator._healthz(unused))
    assert answer.text is not None
    return answer.status, json.loads(answer.text)


def test_operator_without_resources_is_healthy(clock: Clock) -> None:
    operator = Application(Settings())
    clock.now += 10 * STALE_AFTER_S
    assert health(operator)[0] == 200


@pytest.mark.parametrize("set_by_s", [-1e6, 1e6])
def test_clock_change_causes_no_restart(clock: Clock, set_by_s: float) -> None:
    operator = Application(Settings())
    operator.metrics.watch(GOOD)
    operator.metrics.begin(GOOD)
    clock.wall = set_by_s
    operator.metrics.end(GOOD, None)
    clock.wall *= 2
    status, reported = health(operator)
    assert status == 200
    assert reported["lastReconcileAgeSeconds"] == 0
    clock.now += 2 * STALE_AFTER_S
    assert health(operator)[0] == 503, "a blocked reconcile was not reported"


@pytest.mark.parametrize("error", ["Forbidden", "Unavailable", "TimeoutError"])
def test_resource_that_always_fails_causes_no_restart(clock: Clock, error: str) -> None:
    operator = Application(Settings())
    operator.metrics.watch(BAD)
    for _ in range(100):
        clock.now += 10
        operator.metrics.begin(BAD)
        operator.metrics.end(BAD, error)
    status, reported = health(operator)
    assert status == 200
    assert reported["lastReconcileAgeSeconds"] == 1000, "it was not reported"


def test_one_hanging_worker_does_not_fail_liveness(clock: Clock) -> None:
    operator = Application(Settings())
    for each in (GOOD, BAD):
        operator.metrics.watch(each)
        operator.metrics.begin(each)
    for _ in range(100):
        clock.now += 10
        operator.metrics.end(GOOD, None)
        operator.metrics.begin(GOOD)
    assert health(operator)[0] == 200


def test_liveness_fails_when_all_workers_hang(clock: Clock) -> None:
    operator = Application(Settings())
    for each in (GOOD, BAD):
        operator.metrics.watch(each)
        operator.metrics.begin(each)
    clock.now += STALE_AFTER_S - 1
    assert health(operator)[0] == 200
    clock.now += 2
    assert health(operator)[0] == 503


def test_long_wait_for_the_next_reconcile_is_not_a_hang(clock: Clock) -> None:
    operator = Application(Settings())
    operator.metrics.watch(GOOD)
    operator.metrics.begin(GOOD)
    operator.metrics.end(GOOD, None)
    operator.metrics.wait(GOOD, 2 * STALE_AFTER_S)
    clock.now += 2.5 * STALE_AFTER_S
    assert health(operator)[0] == 200
    clock.now += STALE_AFTER_S
    assert health(operator)[0] == 503


@pytest.mark.parametrize(
    "error", [Forbidden(403, "Forbidden", "no"), Unavailable(0, "ConnectError", "refused")]
)
def test_workers_with_failing_calls_count_as_progress(error: Exception) -> None:
    operator = Application(Settings())

    class Failing:
        async def reconcile(self, namespace: str, name: str) -> Next:
            raise error

    async def run() -> float:
        workers = Workers("MetadataQuorum", Failing(), operator.metrics, 10.0)
        workers.ensure("s", "n")
        await asyncio.sleep(0.3)
        still_s = operator.metrics.standstill_s()
        await workers.stop()
        return still_s

    assert asyncio.run(run()) == 0.0
