"""Which events of a resource start its worker again: repeated ones only if it has none."""

import asyncio
from typing import Any

import pytest

from quorum_operator.application import Application
from quorum_operator.reconcile import Next
from quorum_operator.settings import Settings
from quorum_operator.workers import Workers

PLACE = ("s", "n")


class Resource:
    """What the API server answers about one resource to the reconciler of its kind."""

    def __init__(self) -> None:
        self.there = True
        self.reconciles = 0

    async def reconcile(self, namespace: str, name: str) -> Next:
        self.reconciles += 1
        return Next(finished=not self.there)


def body(phase: str | None = None, **changes: Any) -> dict[str, Any]:
    meta = {"name": "n", "namespace": "s", "uid": "u", "generation": 1, **changes}
    return {"metadata": meta, "spec": {"quorum": "q"}, "status": {"phase": phase}}


def operator_of(resource: Resource) -> tuple[Application, Workers]:
    operator = Application(Settings())
    workers = Workers("Kind", resource, operator.metrics, resync_s=600.0)
    operator._workers = operator._reassignments = workers
    return operator, workers


async def until(holds: Any) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - there is no notification
            await asyncio.sleep(0)


def test_repeated_event_starts_no_second_reconcile() -> None:
    async def run() -> int:
        resource = Resource()
        operator, workers = operator_of(resource)
        operator.quorum_changed(*PLACE, body())
        await until(lambda: resource.reconciles)
        for _ in range(20):
            operator.quorum_changed(*PLACE, body())
            await asyncio.sleep(0)
        await workers.stop()
        return resource.reconciles

    assert asyncio.run(run()) == 1


async def test_quorum_that_was_not_found_for_a_moment_is_reconciled_again() -> None:
    resource = Resource()
    operator, workers = operator_of(resource)
    resource.there = False
    operator.quorum_changed(*PLACE, body())
    await until(lambda: resource.reconciles and not workers.has(*PLACE))
    resource.there = True
    operator.quorum_changed(*PLACE, body())
    await until(lambda: resource.reconciles > 1)
    await workers.stop()


async def test_deleted_quorum_is_forgotten_and_a_restored_one_is_new() -> None:
    resource = Resource()
    operator, workers = operator_of(resource)
    operator.quorum_changed(*PLACE, body())
    await until(lambda: resource.reconciles)
    resource.there = False
    operator.quorum_changed(*PLACE, body(), deleted=True)
    await until(lambda: not workers.has(*PLACE))
    assert not operator._generations
    resource.there = True
    operator.quorum_changed(*PLACE, body())
    await until(lambda: workers.has(*PLACE) and resource.reconciles > 2)
    await workers.stop()


@pytest.mark.parametrize("final_seen", [True, False])
@pytest.mark.parametrize("phase", ["Completed", "Failed", "Cancelled"])
async def test_reassignment_whose_final_phase_is_cleared_starts_again(
    phase: str, final_seen: bool
) -> None:
    """Watches may merge two changes to one event."""
    resource = Resource()
    operator, workers = operator_of(resource)
    operator.reassignment_changed(*PLACE, body(), deleted=False)
    await until(lambda: resource.reconciles)
    resource.there = False  # ended
    workers.wake(*PLACE)
    await until(lambda: not workers.has(*PLACE))
    if final_seen:
        operator.reassignment_changed(*PLACE, body(phase), deleted=False)
        assert not operator._reassigned, "started again at a change of the holder"
    assert not workers.has(*PLACE)
    resource.there = True
    before = resource.reconciles
    operator.reassignment_changed(*PLACE, body(), deleted=False)
    await until(lambda: resource.reconciles > before)
    await workers.stop()
