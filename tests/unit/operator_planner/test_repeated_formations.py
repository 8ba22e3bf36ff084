"""A formation is repeated if the founder's disk fails, but not for ever on storage of which every disk fails."""

from dataclasses import replace

from quorum_operator.planner.observed import (
    FailureLatch,
    Identity,
    Incarnation,
    Observation,
    StorageChoice,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.step import CreateIdentity, Wait
from support.observed_quorum import NOW, observation_of, sound_member

HOUR_S = 3600.0


def founder(formation: int, failed_at: float) -> Incarnation:
    """Of a formation that was given up, or is about to be: its disk failed."""
    latch = FailureLatch("StorageFailed", "fsync: Input/output error", failed_at, failed_at)
    return sound_member(
        1,
        number=formation,
        name=f"q-1-{formation}",
        uid=f"uid-{formation}",
        formation=formation,
        uuid=f"f{formation}",
        failed=latch,
        stopped="StorageFailed",
        replicas=0,
        pod=None,
        report=None,
    )


def after(failures: int, *, apart_s: float = 20.0, limit: int = 6) -> Observation:
    """So many founders have failed, one after the other; the last one just now."""
    numbers = range(1, failures + 1)
    found = [founder(each, NOW - (failures - each) * apart_s) for each in numbers]
    seen = observation_of(found, size=3)
    identities = tuple(Identity(n, f"c{n}", 1, f"f{n}", 3, formed=False) for n in numbers)
    wanted = replace(seen.wanted, max_replacements_per_hour=limit)
    return replace(seen, identities=identities, wanted=wanted)


def test_formation_is_repeated_as_often_as_the_limit_permits() -> None:
    for failures in (1, 6):
        step = plan(after(failures))
        assert isinstance(step, CreateIdentity)
        assert step.index == failures + 1
    waiting = plan(after(7))
    assert isinstance(waiting, Wait)
    assert waiting.blocked_by == "spec.repair.maxReplacementsPerHour"
    assert "the disks of 7 members failed" in waiting.reason
    assert "fsync: Input/output error" in waiting.reason
    assert "Correct spec.storage" in waiting.reason
    assert isinstance(plan(after(1, limit=0)), Wait)


def test_formation_is_repeated_later_or_on_other_storage() -> None:
    assert isinstance(plan(after(7, apart_s=HOUR_S / 6)), CreateIdentity)
    seen = after(7)
    other = replace(seen.wanted, storage=StorageChoice("1Gi", "other"))
    assert isinstance(plan(replace(seen, wanted=other)), CreateIdentity)
