"""Many repairs at once: none waits for another one within the operator, and none makes many calls.

The machine has no part in it: calls always take the same time, and the time is virtual. How long repairs take with
a real API server on a real machine is measured by `make bench-operator`.
"""

import pytest

from quorum_operator import workers as module
from support.envtest.scale import p95
from support.many_quorums import ManyQuorums
from support.virtual_time import run

API_CALLS = 88
"""Of one repair of five members, the ones that change something included, and a pass in which the budget follows the voters."""
LONGER = 2.0
"""Times as long as one alone."""


def times_of(quorums: int, members: int, disks: int) -> tuple[float, float]:
    """Of one repair alone, and the 95th percentile of so many at once; seconds."""

    async def story() -> tuple[float, float]:
        fleet = ManyQuorums(quorums, members)
        await fleet.start()
        alone = await fleet.repair(fleet.names[:1])
        many = await fleet.repair(fleet.names[1 : 1 + disks])
        await fleet.stop()
        return alone[0], p95(many)

    return run(story())


@pytest.mark.requirement("OP-03")
def test_few_concurrent_disk_failures_take_as_long_as_one() -> None:
    alone, many = times_of(4, 3, 3)
    assert many <= 1.2 * alone, (alone, many)


@pytest.mark.long
@pytest.mark.requirement("OP-03")
def test_serialized_repairs_would_be_detected_by_the_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SIDE_BY_SIDE", 1)
    alone, many = times_of(6, 3, 5)
    assert many > LONGER * alone, (alone, many)


@pytest.mark.long
@pytest.mark.requirement("OP-03")
def test_twenty_concurrent_disk_failures_take_at_most_twice_as_long_as_one() -> None:
    alone, many = times_of(100, 5, 20)
    assert many <= LONGER * alone, (alone, many)


@pytest.mark.requirement("OP-03")
def test_repair_makes_few_calls() -> None:
    async def story() -> dict[str, int]:
        fleet = ManyQuorums(1, 5)
        await fleet.start()
        fleet.api_calls.clear()
        await fleet.repair(fleet.names)
        return dict(fleet.api_calls)

    calls = run(story())
    assert sum(calls.values()) <= API_CALLS, calls
