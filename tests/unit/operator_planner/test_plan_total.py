"""The planner on observations that need not make sense: always one step, never an unsafe one."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.records.identity import parse_uuid
from quorum_node.survivor import Survivor
from quorum_operator.crd import ReplacementOrder
from quorum_operator.planner import step as steps
from quorum_operator.planner.condition_reasons import REASONS
from quorum_operator.planner.object_facts import Suspicion, Templates
from quorum_operator.planner.observed import (
    ClaimFacts,
    FailureLatch,
    Identity,
    Incarnation,
    Key,
    NodeReport,
    Observation,
    PodFacts,
    QuorumView,
    ReplicaView,
    StorageChoice,
    TargetVoter,
    VolumeFacts,
    Wanted,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.situation import FENCED
from quorum_operator.planner.status import build_status
from quorum_operator.status_crd import MetadataQuorumStatus
from support.observed_quorum import NOW, STORAGE, observation_of, view_of

STORAGES = (STORAGE, StorageChoice("2Gi", "fast"))

booleans = st.booleans()
uuids = st.sampled_from(["a", "b", "c", "d"])
ids = st.integers(1, 5)
keys = st.builds(Key, ids, uuids)
mostly = st.sampled_from([True, True, True, False])
replicas = st.builds(ReplicaView, keys, mostly, mostly, st.integers(0, 9))
latches = st.builds(
    FailureLatch, st.just("StorageFailed"), st.just("x"), st.just(NOW), st.just(NOW)
)
pods = st.builds(
    PodFacts,
    name=st.just("p"),
    uid=st.just("u"),
    created_at=st.sampled_from([NOW - 100, NOW]),
    ip=st.none() | st.just("10.0.0.1"),
    ready=booleans,
    deleting=booleans,
    exit_code=st.sampled_from([None, 0, 1, 73, 74]),
    waiting_reason=st.sampled_from([None, "CrashLoopBackOff", "CreateContainerError"]),
    mount_failed_at=st.none() | st.just(NOW),
    restart_hash=st.just("r"),
)
claims = st.builds(
    ClaimFacts, st.just("c"), st.just("u"), st.sampled_from(["Bound", "Pending", "Lost"]), booleans
)
volumes = st.builds(
    VolumeFacts, st.just("v"), st.sampled_from(["Bound", "Failed"]), st.just(("h",)), mostly
)
reports = st.builds(
    NodeReport,
    uuids,
    st.just("c1"),
    st.just("follower"),
    booleans,
    booleans,
    st.sampled_from(["ok", "full", "failed"]),
)
incarnations = st.builds(
    Incarnation,
    node_id=ids,
    number=st.integers(1, 3),
    name=st.text("qrs", min_size=1, max_size=4),
    uid=st.just("u"),
    resource_version=st.just("1"),
    created_at=st.just(NOW - 60),
    formation=st.integers(1, 2),
    storage=st.sampled_from(STORAGES),
    replicas=st.integers(0, 1),
    uuid=st.none() | uuids,
    failed=st.none() | latches,
    stopped=st.none() | st.just("left"),
    replaces=st.none() | st.just(1),
    recovery=st.sampled_from([None, None, None, None, Survivor(parse_uuid(22 * "A"), 4, 9)]),
    recovery_given_up=booleans,
    pod=st.none() | pods,
    claim=st.none() | claims,
    volume=st.none() | volumes,
    report=st.none() | reports,
)


targets = st.sampled_from([None, None, None, None, (TargetVoter(4), TargetVoter(5, "x"))])


@st.composite
def views(draw: st.DrawFn) -> QuorumView:
    voters = draw(st.lists(replicas, min_size=1, max_size=6, unique_by=lambda each: each.key))
    members = {voter.key for voter in voters}
    others = draw(st.lists(replicas, max_size=4, unique_by=lambda each: each.key))
    return QuorumView(
        cluster_id="c1",
        leader=draw(st.sampled_from(voters)).key,
        epoch=4,
        voters=tuple(voters),
        observers=tuple(each for each in others if each.key not in members),
        voters_offset=17,
        voters_epoch=3,
        voters_committed=draw(mostly),
        pending_change=not draw(mostly),
        own_epoch_committed=draw(mostly),
        formed=draw(mostly),
        initial_voters=3,
        target_voters=draw(targets),
    )


identities = st.builds(
    Identity, st.integers(1, 2), st.just("c1"), ids, uuids, st.sampled_from([1, 3]), booleans
)
observations = st.builds(
    Observation,
    now=st.just(NOW),
    name=st.just("q"),
    generation=st.just(1),
    wanted=st.builds(
        Wanted,
        st.sampled_from([1, 2, 3, 5, 7]),
        st.sampled_from(STORAGES),
        st.frozensets(ids, max_size=2),
        st.sampled_from(ReplacementOrder),
        paused=st.sampled_from([False, False, True]),
        repair_enabled=mostly,
        max_replacements_per_hour=st.sampled_from([0, 6]),
    ),
    deleting=st.sampled_from([False, False, False, True]),
    identities=st.lists(identities, max_size=2, unique_by=lambda each: each.index).map(tuple),
    stale_objects=st.sampled_from([(), (), ("Service/q-nodes",)]),
    incarnations=st.lists(incarnations, max_size=6, unique_by=lambda each: each.name).map(tuple),
    view=st.none() | views(),
    invalid=st.sampled_from([None, None, None, "no such class"]),
)


def _live(view: QuorumView) -> set[Key]:
    return {v.key for v in view.voters if (v.fetching and v.caught_up) or v.key == view.leader}


@settings(max_examples=350, deadline=None, derandomize=True)
@given(observations)
def test_plan_has_exactly_one_step_for_every_observation(seen: Observation) -> None:
    step = plan(seen)
    assert step == plan(replace(seen)), "same input, same step"
    assert step.reason
    status = build_status(seen, step, MetadataQuorumStatus(), "a=b")
    assert status == build_status(seen, step, MetadataQuorumStatus(), "a=b")
    assert all(each.reason in REASONS[each.type] for each in status.conditions)
    if seen.deleting:
        assert isinstance(step, steps.Nothing)
    if seen.wanted.paused:
        assert isinstance(step, steps.Nothing | steps.LatchFailure)
    if isinstance(step, steps.AddVoter | steps.RemoveVoter | steps.TransferLeadership):
        _check_move(seen, step)
    if isinstance(step, steps.ScaleToZero | steps.DeleteIncarnation):
        _check_stop(seen, step)


def _check_move(
    seen: Observation, step: steps.AddVoter | steps.RemoveVoter | steps.TransferLeadership
) -> None:
    view = seen.view
    assert view is not None, "no voter change without a confirmed describe"
    assert not view.pending_change
    assert view.voters_committed
    assert view.own_epoch_committed
    assert view.target_voters is None, "the leader moves voters towards a target"
    size, live = len(view.voters), _live(view)
    if isinstance(step, steps.TransferLeadership):
        assert step.leader == view.leader
        assert step.successor in live - {view.leader}
        return
    assert (step.position.offset, step.position.epoch) == (17, 3)
    if isinstance(step, steps.AddVoter):
        observer = next(each for each in view.observers if each.key == step.key)
        assert observer.fetching
        assert observer.caught_up
        draft = seen.wanted.replacement_order is ReplacementOrder.ADD_FIRST
        assert size == 1 or not view.formed or len(live) + draft >= (size + 1) // 2 + 1
    else:
        assert step.key != view.leader
        assert len(live - {step.key}) >= (size - 1) // 2 + 1


def _check_stop(seen: Observation, step: steps.ScaleToZero | steps.DeleteIncarnation) -> None:
    each = next(one for one in seen.incarnations if one.name == step.target.name)
    newest = max(identity.index for identity in seen.identities)
    if each.formation < newest:
        return
    if isinstance(step, steps.ScaleToZero) and step.why.startswith(FENCED):
        accepted = [one for one in seen.incarnations if one.recovery is not None]
        assert accepted, "only a recovery that was confirmed stops members of a lost quorum"
        assert each not in accepted or each.failed is not None or len(accepted) > 1
        return
    assert seen.view is not None, "nothing is stopped or deleted without a confirmed describe"
    if each.failed is None:
        assert each.key not in {voter.key for voter in seen.view.voters}
    if isinstance(step, steps.DeleteIncarnation):
        assert each.failed is None, "a failed member is kept for inspection"
        assert each.pod is None


def member(node_id: int, number: int, uuid: str, *, dead: bool = False) -> Incarnation:
    """A recorded incarnation; a dead one is latched and stopped."""
    return Incarnation(
        node_id=node_id,
        number=number,
        name=f"q-{node_id}-{number}",
        uid="u",
        resource_version="1",
        created_at=NOW - 99,
        formation=1,
        storage=STORAGES[0],
        replicas=0 if dead else 1,
        uuid=uuid,
        stopped="StorageFailed" if dead else None,
        failed=FailureLatch("StorageFailed", "x", NOW, NOW) if dead else None,
        claim=ClaimFacts("c", "u"),
        pod=None if dead else PodFacts("p", "u", NOW - 99),
    )


def observed(
    wanted: Wanted, members: list[Incarnation], voters: set[str], observers: set[str]
) -> Observation:
    """A formed quorum led by the first voter; members are named by their UUID here."""

    def replica(each: Incarnation) -> ReplicaView:
        alive = each.failed is None
        return ReplicaView(Key(each.node_id, each.uuid or ""), alive, alive)

    view = view_of(
        [replica(each) for each in members if each.uuid in voters],
        leader=Key(members[0].node_id, members[0].uuid or ""),
        observers=tuple(replica(each) for each in members if each.uuid in observers),
        initial_voters=3,
    )
    founder = Identity(1, "c1", 1, "a", 3, formed=True)
    return observation_of(members, view, wanted=wanted, identities=(founder,), templates={})


@pytest.mark.parametrize("order", ReplacementOrder)
def test_order_of_a_replacement_among_three_voters(order: ReplacementOrder) -> None:
    """One of three is dead and its successor has caught up: who moves first?"""
    members = [
        member(1, 1, "a"),
        member(2, 1, "b"),
        member(3, 1, "c", dead=True),
        member(3, 2, "d"),
    ]
    wanted = Wanted(3, STORAGES[0], replacement_order=order)
    step = plan(observed(wanted, members, {"a", "b", "c"}, {"d"}))
    if order is ReplacementOrder.ADD_FIRST:
        assert isinstance(step, steps.AddVoter)
        assert step.key == Key(3, "d")
    else:
        assert isinstance(step, steps.RemoveVoter)
        assert step.key == Key(3, "c")


def test_second_failure_after_the_first_replacement_joined() -> None:
    """3 was removed; 2 has two replicas, old and new: 3 needs a new one, 2 needs no third one."""
    members = [
        *(member(1, 1, "a"), member(2, 1, "b", dead=True), member(2, 2, "b2")),
        *(member(3, 1, "c", dead=True), member(4, 1, "d"), member(5, 1, "e")),
    ]
    wanted = Wanted(5, STORAGES[0])
    voters = {"a", "b", "b2", "d", "e"}
    step = plan(observed(wanted, members, voters, set()))
    assert isinstance(step, steps.CreateMember)
    assert (step.node_id, step.number, step.replaces) == (3, 2, 1)
    step = plan(observed(wanted, [*members, member(3, 2, "c2")], voters, {"c2"}))
    assert isinstance(step, steps.AddVoter)
    assert step.key == Key(3, "c2")


def test_id_never_has_three_replicas() -> None:
    """Both keys of 3 are dead: one of them goes before a third one comes."""
    members = [
        *(member(1, 1, "a"), member(2, 1, "b"), member(3, 1, "c", dead=True)),
        *(member(3, 2, "c2", dead=True), member(3, 3, "c3"), member(4, 1, "d")),
    ]
    for order in ReplacementOrder:
        wanted = Wanted(5, STORAGES[0], replacement_order=order)
        step = plan(observed(wanted, members, {"a", "b", "c", "c2", "d"}, {"c3"}))
        assert isinstance(step, steps.CreateMember | steps.RemoveVoter)


@pytest.mark.parametrize(
    ("since_s", "fetching", "enabled", "latched"),
    [
        *[(29, False, True, False), (31, False, True, True), (31, True, True, False)],
        (31, False, False, False),
    ],
)
def test_circumstance_must_last_and_the_leader_must_not_hear_the_voter(
    since_s: float, fetching: bool, enabled: bool, latched: bool
) -> None:
    pod = PodFacts("p", "u", NOW - 500, ready=False, running=False, mount_failed_at=NOW - 5)
    suspected = Suspicion("VolumeNotMounted", "u", NOW - since_s)
    third = replace(member(3, 1, "c"), pod=pod, suspected=suspected)
    members = [member(1, 1, "a"), member(2, 1, "b"), third]
    wanted = Wanted(3, STORAGES[0], debounce_s=30.0, repair_enabled=enabled)
    seen = observed(wanted, members, {"a", "b", "c"}, set())
    assert seen.view is not None
    silent = ReplicaView(Key(3, "c"), fetching, fetching)
    seen = replace(seen, view=replace(seen.view, voters=(*seen.view.voters[:2], silent)))
    assert isinstance(plan(seen), steps.LatchFailure) == latched


def test_report_from_a_reused_address_marks_no_member_as_failed() -> None:
    foreign_report = NodeReport("x", "c1", "observer", True, True, "ok")
    members = [
        member(1, 1, "a"),
        member(2, 1, "b"),
        replace(member(3, 1, "c"), report=foreign_report),
    ]
    seen = observed(Wanted(3, STORAGES[0]), members, {"a", "b", "c"}, set())
    assert isinstance(plan(seen), steps.Nothing)
    assert seen.view is not None
    silent = ReplicaView(Key(3, "c"), False, False)
    seen = replace(seen, view=replace(seen.view, voters=(*seen.view.voters[:2], silent)))
    assert isinstance(plan(seen), steps.LatchFailure)


def test_restart_continues_with_the_pod_that_was_selected() -> None:
    """Another operator has picked the pod of 3 and has not deleted it yet: not the pod of 2 now."""
    old = {n: PodFacts(f"q-{n}-1-0", f"uid-{n}", NOW - 99, restart_hash="old") for n in (1, 2, 3)}
    members = [
        replace(member(n, 1, uuid), pod=old[n]) for n, uuid in ((1, "a"), (2, "b"), (3, "c"))
    ]
    seen = observed(Wanted(3, STORAGES[0]), members, {"a", "b", "c"}, set())
    hashes = {each.name: Templates("", "new") for each in members}
    members = [replace(each, template_hash="") for each in members]
    seen = replace(seen, templates=hashes, incarnations=tuple(members))
    step = plan(seen)
    assert isinstance(step, steps.RestartMember)
    assert step.pod_uid == "uid-2", "the leader, 1, is last"
    picked = replace(seen.identities[0], restarting="uid-3", resource_version="7")
    step = plan(replace(seen, identities=(picked,)))
    assert isinstance(step, steps.RestartMember)
    assert (step.pod_uid, step.identity_version) == ("uid-3", "7")


@pytest.mark.requirement("OP-05")
@pytest.mark.parametrize(
    "pod",
    [
        PodFacts("q-2-1-0", "uid-2", NOW - 99, deleting=True, restart_hash="old"),
        PodFacts("q-2-1-0", "uid-4", NOW, ready=False, restart_hash="new"),
        None,
    ],
    ids=["going", "not-ready", "gone"],
)
def test_next_pod_restarts_only_after_the_previous_one(pod: PodFacts | None) -> None:
    """A terminating pod is reported as ready for a moment, and the leader counts its voter as live."""
    old = {n: PodFacts(f"q-{n}-1-0", f"uid-{n}", NOW - 99, restart_hash="old") for n in (1, 3)}
    names = [f"q-{n}-1" for n in (1, 2, 3)]
    members = [
        replace(member(n, 1, uuid), pod=old.get(n, pod), template_hash="")
        for n, uuid in ((1, "a"), (2, "b"), (3, "c"))
    ]
    seen = observed(Wanted(3, STORAGES[0]), members, {"a", "b", "c"}, set())
    hashes = {name: Templates("", "new") for name in names}
    step = plan(replace(seen, templates=hashes, incarnations=tuple(members)))
    assert isinstance(step, steps.Wait)
    assert step.blocked_by == "not ready: q-2-1"


def test_scaling_from_three_to_five_adds_voters_after_both_have_caught_up() -> None:
    members = [
        *(member(1, 1, "a"), member(2, 1, "b"), member(3, 1, "c")),
        *(member(4, 1, "d"), member(5, 1, "e")),
    ]
    wanted = Wanted(5, STORAGES[0])
    step = plan(observed(wanted, members, {"a", "b", "c"}, {"d"}))
    assert isinstance(step, steps.Wait)
    step = plan(observed(wanted, members, {"a", "b", "c"}, {"d", "e"}))
    assert isinstance(step, steps.AddVoter)
    step = plan(observed(wanted, members, {"a", "b", "c", "d"}, {"e"}))
    assert isinstance(step, steps.AddVoter), "the time with four voters is one commit"


TARGET = (TargetVoter(1), TargetVoter(2), TargetVoter(9, "zz"))


def under_a_target(seen: Observation) -> Observation:
    assert seen.view is not None
    return replace(seen, view=replace(seen.view, target_voters=TARGET))


CANCEL = "quorumctl alter --cancel --token-file /etc/metadataquorum-token/token"
"""A member's own certificate does not have the right to alter the voters."""


def test_foreign_target_blocks_voter_changes_and_the_message_says_how_to_cancel() -> None:
    """Four voters where three are wanted: the surplus one stays until the target is gone."""
    members = [member(number, 1, uuid) for number, uuid in ((1, "a"), (2, "b"), (3, "c"), (4, "d"))]
    seen = observed(Wanted(3, STORAGES[0]), members, {"a", "b", "c", "d"}, set())
    assert isinstance(plan(seen), steps.RemoveVoter)
    held = under_a_target(seen)
    step = plan(held)
    assert isinstance(step, steps.Wait)
    assert "changing the voters to 1, 2, 9 (zz)" in step.reason
    assert CANCEL in step.blocked_by
    status = build_status(held, step, MetadataQuorumStatus(), "a=b")
    condition = next(each for each in status.conditions if each.type == "AlterationPending")
    assert (condition.status, condition.reason) == ("True", "TargetVotersSet")
    assert "1, 2, 9 (zz)" in condition.message
    assert CANCEL in condition.message
    status = build_status(seen, plan(seen), status, "a=b")
    condition = next(each for each in status.conditions if each.type == "AlterationPending")
    assert (condition.status, condition.reason) == ("False", "NoTarget")


def test_foreign_target_is_reported_although_the_voters_are_as_specified() -> None:
    members = [member(1, 1, "a"), member(2, 1, "b"), member(3, 1, "c")]
    seen = observed(Wanted(3, STORAGES[0]), members, {"a", "b", "c"}, set())
    assert isinstance(plan(seen), steps.Nothing)
    assert isinstance(plan(under_a_target(seen)), steps.Wait)


def test_member_removed_by_a_target_is_not_stopped_yet() -> None:
    """It may be wanted again the moment the target is cancelled; and one to come may be an observer."""
    members = [member(number, 1, uuid) for number, uuid in ((1, "a"), (2, "b"), (3, "c"), (4, "d"))]
    seen = observed(Wanted(3, STORAGES[0]), members, {"a", "b", "c"}, {"d"})
    assert isinstance(plan(seen), steps.ScaleToZero)
    assert isinstance(plan(under_a_target(seen)), steps.Wait)


def test_replacement_of_a_failed_disk_starts_under_a_target() -> None:
    """As an observer; no other member is started."""
    members = [member(1, 1, "a"), member(2, 1, "b"), member(3, 1, "c", dead=True)]
    seen = under_a_target(observed(Wanted(3, STORAGES[0]), members, {"a", "b", "c"}, set()))
    step = plan(seen)
    assert isinstance(step, steps.CreateMember)
    assert (step.node_id, step.number) == (3, 2)
    growing = under_a_target(observed(Wanted(5, STORAGES[0]), members[:2], {"a", "b"}, set()))
    assert isinstance(plan(growing), steps.Wait)
