"""A canary whose disk fails: whether the update, or the disk, is to blame."""

from dataclasses import replace
from typing import Any

from quorum_operator.desired import stateful_set
from quorum_operator.planner.plan import plan
from quorum_operator.planner.step import LatchFailure, RecordUpdate
from quorum_operator.planner.update_record import UpdateOutcome, UpdateRecord
from support.updated_quorum import OWNER, SOAK, UpdatedQuorum, proven


def condemned(world: UpdatedQuorum, **pod: Any) -> RecordUpdate:
    """The disk of the canary has failed, and the failure is recorded; the step about the update after that."""
    world.members[2].pod = {"ready": False, "running": False, **pod}
    world.members[2].in_sync = False
    seen = world.seen()
    latch = plan(seen)
    assert isinstance(latch, LatchFailure), latch
    failed = tuple(
        replace(each, failed=latch.latch) if each.node_id == 2 else each
        for each in seen.incarnations
    )
    step = plan(replace(seen, incarnations=failed))
    assert isinstance(step, RecordUpdate), step
    return step


def test_update_ends_if_the_canary_condemns_its_own_disk() -> None:
    """Otherwise a version that does so on every disk would reach one member after the other."""
    world = proven(**SOAK)
    world.ask(image="r/n:2")
    world.settle()
    world.now += 5
    step = condemned(world, exit_code=74, exit_at=world.now, exit_message="bad checksum")
    assert step.record is not None
    assert (step.record.outcome, step.record.canary) == (UpdateOutcome.FAILED, "q-2-1")
    assert "bad checksum" in step.record.why
    world.identity = replace(world.identity, update=step.record)
    assert world.reason() == "CanaryFailed"
    new_member = stateful_set.Member(2, 2, world.identity)
    template = stateful_set.build(OWNER, world.spec, new_member)["spec"]["template"]["spec"]
    assert template["containers"][0]["image"] == "r/n:1"


def test_disk_that_failed_before_the_update_does_not_end_it() -> None:
    world = proven(**SOAK)
    world.ask(image="r/n:2")
    assert isinstance(world.step(), RecordUpdate)
    step = condemned(world, exit_code=74, exit_at=world.now, restart_hash="earlier")
    assert step.record == UpdateRecord(step.record.settled)  # type: ignore[union-attr]
