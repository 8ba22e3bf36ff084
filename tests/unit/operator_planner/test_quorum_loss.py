"""A lost majority is never made worse, and is reported replica by replica."""

import pickle
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_operator.planner.conditions import QUORUM_LOST
from quorum_operator.planner.observed import (
    ClaimFacts,
    FailureLatch,
    HeldLog,
    Identity,
    Incarnation,
    Key,
    NodeReport,
    Observation,
    PodFacts,
    StorageChoice,
    Wanted,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import LatchFailure, Nothing, Wait
from quorum_operator.status_crd import Condition, MetadataQuorumStatus, Phase
from support.model_rules import majority
from support.modelled_pods import Set
from support.quorum_model import STORAGE, Model

NOW = 1_000_000.0
VOTERS = frozenset({Key(1, "a"), Key(2, "b"), Key(3, "c")})

STATES = ("ok", "failed", "full", "mount-fails", "host-gone", "away")
CHANGES: dict[str, Callable[[Model], None]] = {
    "nothing": lambda model: None,
    "scale to 1": lambda model: _want(model, replicas=1),
    "scale to 5": lambda model: _want(model, replicas=5),
    "retire 1": lambda model: _want(model, retire=frozenset({1})),
    "other storage": lambda model: _want(model, storage=StorageChoice("2Gi", None)),
    "other image": lambda model: setattr(model, "restart_hash", "r9"),
}


def _want(model: Model, **changes: object) -> None:
    model.wanted = replace(model.wanted, **changes)  # type: ignore[arg-type]


def _reconcile(model: Model, times: int) -> None:
    """`Model.apply` checks each step: without a majority nothing is made, stopped, moved or deleted."""
    for _ in range(times):
        model.tick(0.5)
        model.apply(plan(model.observe()))


def _formed(seed: int, replicas: int) -> Model:
    model = Model(random.Random(seed), Wanted(replicas, STORAGE, debounce_s=2.0))
    for _ in range(400):
        _reconcile(model, 1)
        if len(model.live()) == replicas and isinstance(model.steps[-1], Nothing):
            return model
    raise AssertionError("not formed")


def _copies(model: Model) -> dict[str, str | None]:
    """Every disk that can still be read, by member, while its pod is wanted."""
    return {
        each.name: each.disk.uuid
        for each in model.sets.values()
        if each.disk.uuid and each.disk.state in {"ok", "full", "mount-fails"} and each.replicas
    }


def _removed_survivors(model: Model, each: Set, state: str) -> None:
    if state == "away":
        model.crash_pod(each)
        each.disk.state = "mount-fails"
    elif state != "ok":
        model.fail_disk(each, state)


@pytest.mark.requirement("OP-07")
@pytest.mark.parametrize("change", CHANGES)
def test_lost_majority_keeps_every_copy_for_any_cause_and_any_spec(
    change: str,
) -> None:
    """All combinations of what may have happened to three voters."""
    lost, formed = 0, pickle.dumps(_formed(1, 3))
    for states in product(STATES, repeat=3):
        model: Model = pickle.loads(formed)
        members = [each for key in model.current_voters() if (each := model.set_of(key))]
        for each, state in zip(members, states, strict=True):
            _removed_survivors(model, each, state)
        model.tick(0.1)
        if model.has_quorum():
            continue
        lost += 1
        CHANGES[change](model)
        before, names, voters = _copies(model), set(model.sets), list(model.current_voters())
        _reconcile(model, 8)
        assert before.items() <= _copies(model).items(), states
        assert set(model.sets) == names, states
        assert model.current_voters() == voters
        status = build_status(model.observe(), Nothing(""), MetadataQuorumStatus(), "")
        reported = (
            {each.uuid for each in status.quorum_loss.replicas} if status.quorum_loss else set()
        )
        assert reported == {key.uuid for key in voters}, states
    assert lost > 100


@pytest.mark.requirement("OP-07")
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(
    seed=st.integers(0, 2**32),
    target=st.sampled_from([1, 3, 5]),
    at=st.integers(0, 30),
    held=st.integers(5, 25),
    dead=st.booleans(),
)
def test_majority_lost_during_a_change_is_complete_when_it_returns(
    seed: int, target: int, at: int, held: int, dead: bool
) -> None:
    """Lost while members are added and removed; `dead`: one of them never returns."""
    model = _formed(seed, 3)
    _want(model, replicas=target, max_replacements_per_hour=60)
    if dead:
        leader = model.set_of(min(model.live()))
        assert leader is not None
        model.fail_disk(leader, "failed")
    _reconcile(model, at)
    voters = model.current_voters()
    away = [each for key in model.live()[: majority(len(voters))] if (each := model.set_of(key))]
    for each in away:
        _removed_survivors(model, each, "away")
    if not away or model.has_quorum():
        return
    before = _copies(model)
    _reconcile(model, held)
    assert before.items() <= _copies(model).items()
    for each in away:
        each.disk.state = "ok"
    for _ in range(600):
        _reconcile(model, 1)
        if isinstance(model.steps[-1], Nothing) and len(model.live()) == target:
            return
    raise AssertionError(f"not settled: {model.current_voters()} live {model.live()}")


def member(node_id: int, uuid: str, **fields: object) -> Incarnation:
    """A recorded voter with a pod and a bound volume."""
    return Incarnation(
        node_id=node_id,
        number=1,
        name=f"q-{node_id}-1",
        uid="u",
        resource_version="1",
        created_at=NOW - 99,
        formation=1,
        storage=STORAGE,
        uuid=uuid,
        claim=ClaimFacts(f"data-q-{node_id}-1-0", "c", volume=f"pv-{node_id}"),
        **fields,  # type: ignore[arg-type]
    )


def pod(node_id: int, **fields: object) -> PodFacts:
    return PodFacts(f"q-{node_id}-1-0", "p", NOW - 99, **fields)  # type: ignore[arg-type]


def answer(uuid: str, end_offset: int, epoch: int = 4, cluster: str = "c1") -> NodeReport:
    log = HeldLog(epoch, end_offset, end_offset - 2, 9, VOTERS)
    return NodeReport(uuid, cluster, "unattached", True, False, "ok", None, log)


def observed(*members: Incarnation, since_s: float = 60.0) -> Observation:
    return Observation(
        now=NOW,
        name="q",
        generation=1,
        wanted=Wanted(3, STORAGE),
        identities=(Identity(1, "c1", 1, "a", 3, formed=True),),
        incarnations=members,
        known_voters=3,
        unconfirmed_since=NOW - since_s,
    )


DEAD = FailureLatch("StorageFailed", "EIO", NOW - 50, NOW - 50)
LOST = observed(
    member(1, "a", pod=pod(1), report=answer("a", 120)),
    member(2, "b", pod=pod(2, ready=False, waiting_reason="CrashLoopBackOff"), failed=DEAD),
    member(3, "c"),
)


def status_of(seen: Observation) -> MetadataQuorumStatus:
    return build_status(seen, plan(seen), MetadataQuorumStatus(), "")


def test_quorum_of_which_nothing_is_left_says_so_and_is_never_formed_anew() -> None:
    seen = replace(LOST, incarnations=())
    (found,) = [each for each in status_of(seen).conditions if each.type == QUORUM_LOST]
    assert (found.status, found.reason) == ("True", "NothingLeft")
    assert "Restore a backup" in found.message
    assert isinstance(plan(seen), Wait)
    (there,) = [each for each in status_of(LOST).conditions if each.type == QUORUM_LOST]
    assert there.reason == "NoMajority"
    assert "Restore a backup" not in there.message


def test_lost_quorum_lists_every_replica_with_its_log_or_the_reason_for_silence() -> None:
    status = status_of(LOST)
    assert status.phase is Phase.QUORUM_LOST
    assert status.quorum_loss is not None
    first, second, third = status.quorum_loss.replicas
    assert (first.id, first.uuid, first.pod, first.volume) == (1, "a", "q-1-1-0", "pv-1")
    assert (first.epoch, first.end_offset, first.committed_offset) == (4, 120, 118)
    assert first.lost is None
    assert (second.uuid, second.lost, second.end_offset) == ("b", "Failed: StorageFailed", None)
    assert (third.uuid, third.lost, third.pvc) == ("c", "NoPod", "data-q-3-1-0")
    reported = lost_condition(status)
    assert reported.status == "True"
    for word in ("1 of 3 voters answer, 2 are needed", "offset 120 of epoch 4", "pv-2", "NoPod"):
        assert word in reported.message


def lost_condition(status: MetadataQuorumStatus) -> Condition:
    return next(each for each in status.conditions if each.type == QUORUM_LOST)


def test_log_comparison_prefers_the_newer_epoch_over_more_records() -> None:
    seen = replace(
        LOST,
        incarnations=(
            member(1, "a", pod=pod(1), report=answer("a", 900, epoch=3)),
            member(2, "b", pod=pod(2), report=answer("b", 120, epoch=4)),
            member(3, "c"),
        ),
    )
    loss = status_of(seen).quorum_loss
    assert loss is not None
    assert [each.uuid for each in loss.replicas] == ["b", "a", "c"]
    assert "none is the leader" in loss.message


def test_empty_disk_is_not_the_former_replica() -> None:
    blank = member(1, "a", pod=pod(1), report=answer("z", 5), failed=DEAD)
    loss = status_of(observed(blank, member(2, "b"), member(3, "c"))).quorum_loss
    assert loss is not None
    assert [each.lost is None for each in loss.replicas] == [False, False, False]
    fresh = replace(blank, failed=None)
    loss = status_of(observed(fresh, member(2, "b"), member(3, "c"))).quorum_loss
    assert loss is not None
    assert "its disk is empty now" in (loss.replicas[0].lost or "")


def test_answer_of_another_quorum_at_a_reused_address_marks_no_member_as_failed() -> None:
    foreign = member(1, "a", pod=pod(1), report=answer("x", 9, cluster="other"))
    assert isinstance(plan(observed(foreign, member(2, "b"), member(3, "c"))), Wait)
    own = replace(foreign, report=answer("x", 9))
    assert isinstance(plan(observed(own, member(2, "b"), member(3, "c"))), LatchFailure)


def test_election_is_not_reported_as_a_lost_quorum() -> None:
    members = [
        member(each, uuid, pod=pod(each), report=answer(uuid, 9))
        for each, uuid in ((1, "a"), (2, "b"), (3, "c"))
    ]
    assert status_of(observed(*members, since_s=3.0)).quorum_loss is None
    assert status_of(observed(*members, since_s=30.0)).quorum_loss is not None
