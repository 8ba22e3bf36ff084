"""Annotations that a person forges, while disks fail and StatefulSets are deleted: no voter is stopped for them, and the quorum settles."""

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_node.records.identity import parse_uuid
from quorum_node.survivor import Survivor
from quorum_operator.planner.harm import harm, may_harm
from quorum_operator.planner.object_facts import Refusal
from quorum_operator.planner.observed import Key, Marks, Observation, Wanted
from quorum_operator.planner.plan import plan
from quorum_operator.planner.refusals import subject_of
from quorum_operator.planner.situation import FENCED, Situation
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import Nothing, Step
from quorum_operator.status_crd import MetadataQuorumStatus
from support.forged_notes import ForgedModel, Forger
from support.model_rules import majority
from support.modelled_claims import delete_set, keep_marks
from support.quorum_model import STORAGE

pytestmark = pytest.mark.requirement("OP-07")
SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
RETRY_S = 1.0


class Run:
    """The planner with the check before each step, as the executor has it."""

    def __init__(self, seed: int, replicas: int) -> None:
        self.rng = random.Random(seed)
        wanted = Wanted(replicas, STORAGE, debounce_s=3.0, max_replacements_per_hour=60)
        self.model = ForgedModel(random.Random(seed), wanted)
        self.refused: dict[tuple[str, str], Refusal] = {}
        self.told: list[str] = []

    def reconcile(self, times: int = 1) -> None:
        for _ in range(times):
            self.model.tick(self.rng.choice([0.2, 0.5, 1.0]))
            keep_marks(self.model, self.model.observe())
            step = self._allowed()
            self.told.append(str(step))
            self.model.apply(step)

    def _allowed(self) -> Step:
        for _ in range(16):
            seen = self.observe()
            step = plan(seen)
            why = harm(Situation(seen), step) if may_harm(step) else None
            if why is None:
                return step
            name, subject = type(step).__name__, subject_of(seen, step)
            due = seen.now + RETRY_S
            self.refused[name, subject] = Refusal(name, subject, "NotSafeNow", why, due, seen.now)
        raise AssertionError("too many refused steps")

    def observe(self) -> Observation:
        return replace(self.model.observe(), refusals=tuple(self.refused.values()))

    def settle(self) -> None:
        model = self.model
        for _ in range(500):
            self.reconcile()
            whole = len(model.live()) == len(model.current_voters()) == model.wanted.replicas
            if whole and isinstance(model.steps[-1], Nothing):
                return
        raise AssertionError("\n".join(self.told[-30:]))

    def can_lose_one(self) -> bool:
        model = self.model
        return len(model.live()) - 1 >= majority(len(model.current_voters()))


@SETTINGS
@given(
    seed=st.integers(0, 2**32),
    replicas=st.sampled_from([3, 3, 5]),
    pauses=st.lists(st.sampled_from([0, 0, 1, 3, 10]), min_size=1, max_size=5),
    fault=st.sampled_from(["none", "none", "failed", "mount-fails", "host-gone", "crash", "all"]),
)
def test_forged_annotations_stop_no_voter_and_the_quorum_settles(
    seed: int, replicas: int, pauses: list[int], fault: str
) -> None:
    """The model raises Unsafe for a majority that was taken away, and for every other step that must not be."""
    run = Run(seed, replicas)
    run.settle()
    forger = Forger(run.model, run.rng)
    for pause in pauses:
        run.told.append(forger.forge())
        run.reconcile(pause)
    victim = run.rng.choice(list(run.model.sets.values()))
    if fault == "all":
        for each in run.model.sets.values():
            run.model.crash_pod(each)
    elif fault == "crash":
        run.model.crash_pod(victim)
    elif fault != "none" and run.can_lose_one():
        run.model.fail_disk(victim, fault)
    run.settle()


def formed(replicas: int = 3) -> Run:
    run = Run(1, replicas)
    run.settle()
    return run


@pytest.mark.parametrize("text", ["by hand", f"{FENCED}: {22 * 'A'}:1:1"])
@pytest.mark.parametrize("state", ["failed", "mount-fails", "host-gone"])
@pytest.mark.parametrize("place", ["set", "claim"])
def test_dead_disk_of_a_member_with_the_mark_of_a_stop_is_replaced(
    text: str, state: str, place: str
) -> None:
    run = formed()
    victim = run.model.sets["q-2-1"]
    name = "fenced" if text.startswith(FENCED) else "removed"
    if place == "set":
        victim.stopped, victim.version = text, victim.version + 1
    else:
        victim.disk.marks = replace(victim.disk.marks, **{name: text})
    run.model.fail_disk(victim, state)
    key = Key(2, victim.disk.uuid or "")
    run.settle()
    assert key not in run.model.current_voters()


@pytest.mark.parametrize("place", ["set", "both"])
def test_voter_that_was_scaled_to_zero_with_the_mark_of_a_recovery_starts_again(place: str) -> None:
    run = formed()
    keys = set(run.model.current_voters())
    victim, text = run.model.sets["q-2-1"], f"{FENCED}: {22 * 'A'}:1:1"
    victim.stopped, victim.replicas, victim.pod = text, 0, None
    victim.version += 1
    if place == "both":
        victim.disk.marks = replace(victim.disk.marks, fenced=text)
    run.settle()
    assert set(run.model.current_voters()) == keys


def test_voter_without_a_known_uuid_and_without_a_pod_counts_as_not_live() -> None:
    """For a moment its leader still hears it: adding a voter then would be one too many."""
    run = formed()
    victim = run.model.sets["q-2-1"]
    victim.uuid, victim.disk.marks, victim.replicas = None, replace(victim.disk.marks, uuid=None), 0
    seen = replace(run.observe(), view=run.observe().view)
    members = tuple(
        replace(each, uuid=None, report=None, pod=None) if each.name == "q-2-1" else each
        for each in seen.incarnations
    )
    at = Situation(replace(seen, incarnations=members))
    assert {key.id for key in at.live} == {1, 3}


def test_claim_with_the_uuid_of_another_replica_is_named_if_the_quorum_needs_it() -> None:
    run = formed()
    model = run.model
    first, second, third = (model.sets[f"q-{each}-1"] for each in (1, 2, 3))
    model.fail_disk(first, "failed")
    second.disk.marks = replace(second.disk.marks, uuid=third.disk.uuid)
    delete_set(model, second)
    second.disk.marks = replace(second.disk.marks, uuid="u" + 20 * "9" + "A")
    model.tick(0.5)
    seen = model.observe()
    assert seen.view is None
    status = build_status(seen, plan(seen), MetadataQuorumStatus(), "")
    (found,) = [each for each in status.conditions if each.type == "ClaimsInDoubt"]
    assert found.status == "True"
    assert "data-q-2-1-0 (its replica UUID is no voter's)" in found.message


def test_recovery_that_the_spec_does_not_ask_for_fences_no_claim() -> None:
    run = formed()
    model = run.model
    survivor, other = model.sets["q-3-1"], model.sets["q-2-1"]
    uuid = parse_uuid(survivor.disk.uuid or "")
    survivor.recovery = Survivor(uuid, model.epoch, model.held[survivor.name])
    model.fail_disk(survivor, "failed")
    delete_set(model, other)
    run.reconcile(3)
    marks: Marks = other.disk.marks
    assert marks.fenced is None
    run.settle()
