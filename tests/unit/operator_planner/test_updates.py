"""Updates: one member first, observed for as long as the spec says, and back to the proven template if it fails."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quorum_operator.desired import stateful_set
from quorum_operator.kube.facts import update_facts
from quorum_operator.planner.observed import Key, ReplicaView, StorageChoice
from quorum_operator.planner.plan import plan
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import AddVoter, CreateMember, Nothing, RecordUpdate
from quorum_operator.planner.updates import update_status
from support.updated_quorum import CLOSED, FIRST_AT, OPEN, OWNER, SOAK, UpdatedQuorum, proven

pytestmark = pytest.mark.requirement("OP-10")


def test_updates_without_a_policy_are_unchanged_and_write_nothing() -> None:
    world = UpdatedQuorum(image="r/n:1")
    assert isinstance(world.step(), Nothing)
    world.ask(image="r/n:2")
    world.settle()
    assert world.identity.update is None
    assert world.restarted == [2, 3, 1], "the leader last"


@pytest.mark.parametrize("change", [{"image": "r/n:2"}, {"config": {"a": "2"}}], ids=str)
def test_canary_runs_alone_for_its_soak_time(change: dict[str, Any]) -> None:
    world = proven(**SOAK)
    before = world.config()
    world.ask(**change)
    world.settle()
    assert world.restarted == [2], "no leader"
    assert world.updated() == {world.canary} == {2}
    assert world.reason() == "Soaking"
    assert world.config()["node.properties"] == before["node.properties"]
    world.come_back(3)
    assert world.updated() == {2}, (
        "a pod that is recreated in the meantime has the accepted template"
    )
    world.now += 59
    world.settle()
    assert world.restarted == [2]
    world.now += 1
    world.settle()
    assert world.restarted == [2, 3, 1]
    assert world.updated() == {1, 2, 3}
    assert world.reason() == "AllMembersUpdated"
    record = world.identity.update
    assert record is not None
    assert record.tried is None, "the template is accepted now"
    data = world.config()
    assert data["node.properties"] == data["candidate.properties"]
    assert world.step() == plan(world.seen()), "no further step"


@pytest.mark.parametrize("ahead_s", [-6 * 3600.0, 6 * 3600.0])
def test_canary_soaks_also_on_a_host_whose_clock_is_wrong(ahead_s: float) -> None:
    world = proven(**SOAK)
    world.ask(image="r/n:2")
    world.settle()
    world.members[2].pod, world.members[2].in_sync = {"ready_since": world.now + ahead_s}, False
    world.settle()
    assert world.restarted == [2], "not rolled back because it does not catch up within a second"
    world.members[2].in_sync = True
    for passed_s, restarted in ((59, [2]), (121, [2, 3, 1])):
        world.now += passed_s
        world.settle()
        assert world.restarted == restarted


def failing(world: UpdatedQuorum, how: Callable[[UpdatedQuorum], None]) -> None:
    world.ask(image="r/n:2", config={"a": "2"})
    world.settle()
    assert world.restarted == [2]
    how(world)
    world.settle()


def crashes(world: UpdatedQuorum) -> None:
    world.crash(2)


def restarts_once(world: UpdatedQuorum) -> None:
    world.members[2].pod = {"exit_code": 1}


def is_never_ready(world: UpdatedQuorum) -> None:
    world.crash(2, exit_code=None, waiting_reason="ImagePullBackOff", not_ready_since=world.now)
    world.settle()
    assert world.restarted == [2], "pulling an image may take long"
    world.now += 120


def never_catches_up(world: UpdatedQuorum) -> None:
    world.now += 60
    world.members[2].in_sync = False
    world.settle()
    assert world.restarted == [2], "the member may only be behind"
    world.now += 120


def is_ready_now_and_then(world: UpdatedQuorum) -> None:
    for _ in range(6):
        world.now += 50
        world.members[2].pod = {"ready_since": world.now}
        if world.now - FIRST_AT < 300:
            world.settle()
            assert world.restarted == [2]


@pytest.mark.parametrize(
    "how",
    [crashes, restarts_once, is_never_ready, never_catches_up, is_ready_now_and_then],
    ids=lambda how: how.__name__,
)
def test_failed_canary_is_rolled_back_and_no_member_follows(
    how: Callable[[UpdatedQuorum], None],
) -> None:
    world = proven(**SOAK)
    failing(world, how)
    assert world.restarted == [2, 2], "forth and back"
    assert world.updated() == set()
    assert world.reason() == "CanaryFailed"
    message = world.message()
    assert "q-2-1 failed" in message
    assert "spec.update.attempt" in message, "the message has no advice"
    status = update_status(Situation(world.seen()))
    assert status is not None
    assert status.failed
    world.now += 100_000
    world.settle()
    assert world.restarted == [2, 2], "it was tried again automatically"


def test_failed_update_is_retried_on_request_or_after_a_change_or_revert() -> None:
    world = proven(**SOAK)
    failing(world, crashes)
    world.ask(update={**SOAK, "attempt": 1})
    world.settle()
    assert world.updated() == {2}, "the same once more"
    crashes(world)
    world.settle()
    world.ask(image="r/n:3")
    world.settle()
    assert world.updated() == {2}, "another one"
    world.ask(image="r/n:1", config={"a": "1"})
    world.settle()
    assert world.updated() == {1, 2, 3}, "an accepted template needs no soak time"
    assert world.reason() == "AllMembersUpdated"


@pytest.mark.parametrize(
    ("held", "freed"),
    [
        ({"paused": True}, {}),
        ({"windows": CLOSED}, {"windows": CLOSED + OPEN}),
        ({"windows": [{"start": "0 0 * * *", "durationMinutes": 1, "timeZone": "Nowhere"}]}, {}),
    ],
    ids=["paused", "outside", "unusable"],
)
@pytest.mark.parametrize("soak", [{}, SOAK], ids=["at once", "canary"])
def test_recreated_pod_uses_the_proven_template_while_an_update_waits(
    held: dict[str, Any], freed: dict[str, Any], soak: dict[str, Any]
) -> None:
    world = proven(**soak, **held)
    world.ask(image="r/n:2")
    world.settle()
    assert world.reason() == "Held"
    world.come_back(3)
    world.settle()
    assert world.updated() == set()
    world.ask(update={**soak, **freed})
    world.settle()
    assert len(world.restarted) == (1 if soak else 3)


def test_closed_window_blocks_the_members_that_have_not_restarted() -> None:
    world = proven(windows=OPEN)
    world.ask(image="r/n:2")
    while not world.restarted:
        world.step()
    world.ask(update={"windows": CLOSED})
    world.settle()
    assert world.restarted == [2]
    assert world.reason() == "Held"
    assert "next one opens at 1972-02-29T00:00:00Z" in world.message()
    world.ask(update={"windows": OPEN})
    world.settle()
    assert world.restarted == [2, 3, 1]


def test_canary_rollback_ignores_windows() -> None:
    world = proven(windows=OPEN, **SOAK)
    world.ask(image="r/n:2")
    world.settle()
    world.ask(update={"windows": CLOSED, **SOAK})
    crashes(world)
    world.settle()
    assert world.restarted == [2, 2]
    assert world.updated() == set()


@pytest.mark.parametrize(
    "update", [{"paused": True}, {"windows": CLOSED}, {**SOAK, "paused": True}]
)
def test_member_that_fails_with_the_proven_template_gets_the_update_immediately(
    update: dict[str, Any],
) -> None:
    world = proven(**update)
    world.ask(image="r/n:2")
    world.settle()
    assert world.restarted == []
    world.crash(3, exit_code=None, waiting_reason="ErrImagePull")
    world.settle()
    assert world.restarted == [3], "a repair is not held back"
    assert 3 in world.updated()


def test_repair_uses_the_proven_template_and_ignores_windows() -> None:
    """A disk fails while an update is delayed: its replacement is created at once."""
    world = proven(windows=CLOSED)
    world.ask(image="r/n:2")
    world.settle()
    world.members[3].pod = {"ready": False, "running": False, "exit_code": 74}
    world.members[3].in_sync = False
    seen = world.seen()
    step = plan(seen)
    assert type(step).__name__ == "LatchFailure", step
    latched = tuple(
        replace(each, failed=step.latch, replicas=0, stopped="failed", pod=None)  # type: ignore[union-attr]
        if each.node_id == 3
        else each
        for each in seen.incarnations
    )
    step = plan(replace(seen, incarnations=latched))
    assert isinstance(step, CreateMember), step
    assert step.node_id == 3
    new_member = stateful_set.Member(3, 2, world.identity)
    proven_image = stateful_set.build(OWNER, world.spec, new_member)["spec"]["template"]["spec"]
    assert proven_image["containers"][0]["image"] == "r/n:1"


def test_storage_move_waits_for_a_window_unless_it_has_started() -> None:
    world = proven(windows=CLOSED)
    world.ask(storage={"size": "1Gi", "storageClassName": "fast"})
    assert isinstance(plan(world.seen()), Nothing)
    world.ask(update={"windows": OPEN})
    step = plan(world.seen())
    assert isinstance(step, CreateMember)
    world.ask(update={"windows": CLOSED})
    seen = world.seen()
    newest = replace(
        seen.incarnations[step.node_id - 1],
        number=2,
        name=f"q-{step.node_id}-2",
        uid="new",
        uuid="new",
        storage=StorageChoice("1Gi", "fast"),
        report=None,
    )
    view = seen.view
    assert view is not None
    observer = ReplicaView(Key(step.node_id, "new"), True, True)
    begun = replace(
        seen,
        incarnations=(*seen.incarnations, newest),
        view=replace(view, observers=(observer,)),
    )
    assert isinstance(plan(begun), AddVoter), "the update that has begun is finished"


def test_replaced_canary_is_followed_by_another_canary() -> None:
    world = proven(**SOAK)
    world.ask(image="r/n:2")
    world.settle()
    gone = tuple(each for each in world.seen().incarnations if each.node_id != 2)
    step = plan(replace(world.seen(), incarnations=gone))
    assert isinstance(step, RecordUpdate)
    assert step.record is not None
    assert step.record.tried is None


def test_no_canary_is_chosen_while_a_member_is_unhealthy() -> None:
    world = proven(**SOAK)
    world.ask(image="r/n:2")
    world.members[3].in_sync = False
    world.settle()
    assert world.restarted == []
    assert world.reason() == "Waiting"
    world.members[3].in_sync = True
    world.settle()
    assert world.restarted == [2]


def test_update_record_is_removed_with_the_policy_and_not_reused() -> None:
    world = proven(**SOAK)
    world.ask(update=None)
    world.settle()
    assert world.identity.update is None
    world.ask(image="r/n:2")
    world.settle()
    world.ask(update=SOAK)
    world.settle()
    assert world.updated() == {1, 2, 3}


def test_first_update_with_a_new_policy_has_no_template_to_roll_back_to() -> None:
    world = UpdatedQuorum(image="r/n:1")
    world.ask(image="r/n:2", update=SOAK)
    world.settle()
    assert world.updated() == {1, 2, 3}
    assert world.identity.update is not None


@pytest.mark.parametrize(
    "text", [None, "", "{}", "[]", '{"revision": "r", "parts": {}, "outcome": 7}']
)
def test_unreadable_update_record_is_ignored(text: str | None) -> None:
    assert update_facts(text) is None
