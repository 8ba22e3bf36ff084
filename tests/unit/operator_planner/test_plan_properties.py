"""The planner on a simulated cluster: every step safe, always converging, always the same step."""

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_operator.crd import ReplacementOrder
from quorum_operator.planner.observed import Key, TargetVoter, Wanted
from quorum_operator.planner.plan import plan
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import Nothing, Step, Wait
from quorum_operator.status_crd import MetadataQuorumStatus
from support.model_rules import majority
from support.quorum_model import STORAGE, Model

SETTINGS = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
CALM_LIMIT = 600

ACTIONS = (
    "scale",
    "crash",
    "fail",
    "mount",
    "host",
    "claim",
    "retire",
    "config",
    "flicker",
    "return",
    "alter",
    "cancel",
    "calm",
)


def _reconcile(model: Model) -> Step:
    """One reconcile; it may be lost half way, which is the same as not having happened."""
    seen = model.observe()
    step = plan(seen)
    if [step] != model.steps[-1:]:  # most observations repeat the previous one
        assert plan(seen) == step, "same input, same step"
        status = build_status(seen, step, MetadataQuorumStatus(), "app=q")
        assert status.plan is not None
        assert status.plan.reason == step.reason
    if model.rng.random() < 0.9:
        model.apply(step)
    return step


def _run(model: Model, reconciles: int) -> Step:
    step: Step = Nothing("")
    for _ in range(reconciles):
        step = _reconcile(model)
        if isinstance(step, Wait):
            model.tick(max(step.retry_after_s, 0.2))
        elif isinstance(step, Nothing):
            model.tick(1.0)
        elif model.rng.random() < 0.5:
            model.tick(0.05)
    return step


def _healthy(model: Model) -> bool:
    voters = model.current_voters()
    return len(voters) == model.wanted.replicas and len(model.live()) == len(voters)


def _converge(model: Model) -> None:
    for _ in range(CALM_LIMIT):
        model.tick(0.3)
        step = _run(model, 1)
        if isinstance(step, Nothing) and _healthy(model):
            return
    history = "\n".join(str(each) for each in model.steps[-30:])
    raise AssertionError(f"not settled: {model.current_voters()} live {model.live()}\n{history}")


def _held(model: Model) -> None:
    """Under a foreign target the operator waits for it, and reports it."""
    for _ in range(CALM_LIMIT):
        model.tick(0.3)
        step = _run(model, 1)
        if model.target is None:
            return  # reached
        if isinstance(step, Wait) and "AlterQuorum" in step.reason:
            assert "quorumctl alter --cancel" in step.blocked_by
            return
    raise AssertionError(f"not held: {step}")


def _may_lose_one(model: Model) -> bool:
    """One more voter may die without the quorum being lost."""
    return len(model.live()) - 1 >= majority(len(model.current_voters()))


def _act(model: Model, action: str, draw: random.Random) -> None:
    voters = [s for key in model.live() if (s := model.set_of(key)) is not None]
    victim = draw.choice(voters) if voters else None
    wanted = model.wanted
    if action == "scale":
        model.wanted = replace(wanted, replicas=draw.choice([1, 3, 5, 7]))
    elif action == "config":
        model.restart_hash = f"r{draw.randrange(1000)}"
    elif action == "retire":
        if len(wanted.retire) < 3 and victim is not None:
            model.wanted = replace(wanted, retire=wanted.retire | {victim.node_id})
    elif action == "cancel":
        model.target = None
    elif victim is None or not model.formed.get(model.index, False):
        return
    elif action == "alter":
        ids = sorted({key.id for key in model.current_voters()})
        wanted_ids = draw.sample([*ids, 99], draw.randint(1, len(ids)))
        model.target = tuple(TargetVoter(each) for each in wanted_ids)
    elif action == "crash" and _may_lose_one(model):
        model.crash_pod(victim)
    elif action == "claim" and _may_lose_one(model):
        victim.disk.claim_deleting = True
    elif action == "flicker" and _may_lose_one(model):
        model.fail_disk(victim, "failed")  # the process saw it and has ended
        victim.disk.state, victim.disk.healed = "ok", True
    elif action == "return":
        for each in model.sets.values():
            if each.disk.state in {"mount-fails", "host-gone"}:
                each.disk.state = "ok"
    elif action in {"fail", "mount", "host"} and _may_lose_one(model):
        state = {"fail": "failed", "mount": "mount-fails", "host": "host-gone"}[action]
        model.fail_disk(victim, state)


@pytest.mark.requirement("OP-03")
@SETTINGS
@given(
    seed=st.integers(0, 2**32),
    replicas=st.sampled_from([1, 3, 5]),
    order=st.sampled_from(ReplacementOrder),
    actions=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(1, 25)), max_size=8),
)
def test_every_step_is_safe_and_the_quorum_converges(
    seed: int, replicas: int, order: ReplacementOrder, actions: list[tuple[str, int]]
) -> None:
    model = Model(random.Random(seed), Wanted(replicas, STORAGE, replacement_order=order))
    model.wanted = replace(model.wanted, debounce_s=5.0, max_replacements_per_hour=60)
    draw = random.Random(seed + 1)
    for action, reconciles in actions:
        _run(model, reconciles)
        _act(model, action, draw)
    if model.target is not None:
        _held(model)
        model.target = None
    _converge(model)
    assert _no_removed_key_votes(model)
    assert model.wanted.retire.isdisjoint(key.id for key in model.current_voters())


def _no_removed_key_votes(model: Model) -> bool:
    """A replica that was removed because its disk failed never votes again."""
    failed = {(e.node_id, e.uuid) for e in model.sets.values() if e.failed is not None}
    return not failed & {(key.id, key.uuid) for key in model.current_voters()}


@SETTINGS
@given(seed=st.integers(0, 2**32), replicas=st.sampled_from([3, 5]), healed=st.booleans())
def test_quorum_without_majority_is_not_changed(seed: int, replicas: int, healed: bool) -> None:
    model = Model(random.Random(seed), Wanted(replicas, STORAGE))
    _converge(model)
    names = set(model.sets)
    voters = list(model.current_voters())
    for key in voters[: majority(replicas)]:
        each = model.set_of(key)
        assert each is not None
        model.fail_disk(each, "failed")
    model.tick(0.1)
    _run(model, 40)
    assert set(model.sets) == names, "nothing is created or deleted"
    assert model.current_voters() == voters
    assert all(each.replicas == 1 for each in model.sets.values()), "nothing is stopped"
    status = build_status(model.observe(), Nothing(""), MetadataQuorumStatus(), "")
    assert status.phase.value == "QuorumLost"


@SETTINGS
@given(
    seed=st.integers(0, 2**32),
    initial=st.sampled_from([3, 5]),
    at=st.integers(3, 30),
    how=st.sampled_from(["failed", "host-gone", "mount-fails"]),
)
def test_founder_lost_before_formation_gets_a_new_identity(
    seed: int, initial: int, at: int, how: str
) -> None:
    model = Model(random.Random(seed), Wanted(initial, STORAGE))
    for _ in range(at):
        if model.identities and model.identities[0].formed:
            break
        _run(model, 1)
    founder = next((each for each in model.sets.values() if each.founder), None)
    if founder is None or model.identities[0].formed:
        return
    model.fail_disk(founder, how)
    claims = dict(model.used)
    _converge(model)
    assert all(model.used[node_id] >= number for node_id, number in claims.items())
    assert founder.name in model.sets, "nothing is deleted"
    key = Key(founder.node_id, founder.uuid or "")
    assert key not in model.current_voters()
    clusters = {each.cluster_id for each in model.identities}
    assert len(clusters) == len(model.identities)


@SETTINGS
@given(seed=st.integers(0, 2**32), reconciles=st.integers(0, 60))
@pytest.mark.requirement("OP-01")
def test_paused_quorum_has_no_moves(seed: int, reconciles: int) -> None:
    model = Model(random.Random(seed), Wanted(3, STORAGE))
    _run(model, reconciles)
    model.wanted = replace(model.wanted, paused=True, replicas=5)
    before = len(model.steps)
    _run(model, 20)
    assert {type(each).__name__ for each in model.steps[before:]} <= {"Nothing"}
    model.wanted = replace(model.wanted, paused=False)
    _converge(model)


@SETTINGS
@given(seed=st.integers(0, 2**32))
def test_full_disk_is_never_replaced(seed: int) -> None:
    model = Model(random.Random(seed), Wanted(3, STORAGE))
    _converge(model)
    voters = list(model.current_voters())
    each = model.set_of(voters[seed % 3])
    assert each is not None
    model.fail_disk(each, "full")
    model.tick(0.5)
    _run(model, 30)
    assert model.current_voters() == voters
    assert each.failed is None
    status = build_status(model.observe(), Nothing(""), MetadataQuorumStatus(), "")
    assert status.phase.value == "DiskFull"


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("went_back", (12, 8), "offset 8 after it had acknowledged all records before 12"),
        ("damaged_from", 9, "the records that the leader sends arrive damaged from offset 9 on"),
    ],
)
def test_report_about_a_replica_is_shown_and_replaces_no_member(
    field: str, value: object, text: str
) -> None:
    model = Model(random.Random(7), Wanted(3, STORAGE))
    _converge(model)
    seen = model.observe()
    assert seen.view is not None
    first, *others = seen.view.voters
    told = replace(first, **{field: value})  # type: ignore[arg-type]
    reporting = replace(seen, view=replace(seen.view, voters=(told, *others)))
    assert plan(reporting) == plan(seen)
    before, after = (
        build_status(each, plan(each), MetadataQuorumStatus(), "") for each in (seen, reporting)
    )
    reported = {member.id: member.condition for member in after.members}
    assert text in (reported.pop(first.key.id) or "")
    assert set(reported.values()) == {None}
    assert (after.phase, after.failure_tolerance) == (before.phase, before.failure_tolerance)


def test_generated_examples_cover_every_kind_of_step() -> None:
    wanted = {
        *("CreateIdentity", "ApplyObjects", "CreateMember", "UpdateMember", "RecordReplicaUuid"),
        *("RecordFormed", "LatchFailure", "ScaleToZero", "AddVoter", "RemoveVoter", "Wait"),
        *("TransferLeadership", "RestartMember", "DeleteIncarnation", "Nothing", "Unlatch"),
    }
    seen: set[str] = set()
    for seed in (38, *range(60)):  # what takes a latch back again is rare
        draw = random.Random(seed)
        model = Model(random.Random(seed), Wanted(3, STORAGE, debounce_s=5.0))
        model.wanted = replace(model.wanted, max_replacements_per_hour=60)
        for _ in range(10):
            _run(model, draw.randrange(25))
            _act(model, draw.choice(ACTIONS), draw)
        model.target = None
        _converge(model)
        seen |= {type(each).__name__ for each in model.steps}
        if wanted <= seen:
            return
    raise AssertionError(wanted - seen)
