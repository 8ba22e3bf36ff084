"""The planner of AlterQuorum: which single change comes next (KIP-595, "Reassignment Algorithm")."""

from dataclasses import replace
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.quorum_arithmetic import majority, tolerance
from quorum_node.raft.alteration import (
    Add,
    Finish,
    HandOver,
    Observer,
    Remove,
    Situation,
    Step,
    Wait,
    compare,
    next_step,
)
from quorum_node.records.identity import ReplicaKey

MOST_STEPS = 60


def key(id: int, incarnation: int = 1) -> ReplicaKey:
    return ReplicaKey(id, UUID(int=(incarnation << 64) + id + 1))


def keys(*ids: int) -> tuple[ReplicaKey, ...]:
    return tuple(key(each) for each in ids)


def any_of(*ids: int) -> tuple[ReplicaKey, ...]:
    """Entries without a UUID, as the document's target voters are."""
    return tuple(ReplicaKey(each) for each in ids)


def situation(
    voters: tuple[ReplicaKey, ...],
    target: tuple[ReplicaKey, ...],
    *,
    leader: ReplicaKey | None = None,
    dead: tuple[ReplicaKey, ...] = (),
    ready: tuple[ReplicaKey, ...] = (),
) -> Situation:
    return Situation(
        leader or voters[0],
        voters,
        target,
        frozenset(each for each in voters if each not in dead),
        tuple(Observer(each, True) for each in ready),
    )


@pytest.mark.requirement("K595-23")
def test_replacing_all_three_voters_takes_the_documented_steps() -> None:
    """(1, 2, 3) to (4, 5, 6) with leader 1, which stays until the end and then transfers leadership."""
    voters, leader, ready = keys(1, 2, 3), key(1), keys(4, 5, 6)
    seen: list[Step] = []
    while not isinstance(seen[-1] if seen else None, Finish):
        step = next_step(situation(voters, any_of(4, 5, 6), leader=leader, ready=ready))
        seen.append(step)
        match step:
            case Add(newcomer):
                voters = (*voters, newcomer)
            case Remove(leaving):
                voters = tuple(each for each in voters if each != leaving)
            case HandOver(successor):
                leader = successor
    assert seen == [
        Add(key(4)),
        Remove(key(3)),
        Add(key(5)),
        Remove(key(2)),
        Add(key(6)),
        HandOver(key(6)),
        Remove(key(1)),
        Finish(),
    ]


@pytest.mark.requirement("K595-23")
def test_caught_up_replica_is_added_first() -> None:
    step = next_step(situation(keys(1, 2, 3), any_of(4, 5, 6), ready=keys(6)))
    assert step == Add(key(6))


def test_failed_addition_is_retried_after_the_others() -> None:
    seen = situation(keys(1, 2, 3), any_of(4, 5, 6))
    observers = (Observer(key(4), True), Observer(key(5), True), Observer(key(6), False))
    seen = replace(seen, observers=observers, failures={key(4): 2, key(5): 1})
    assert next_step(seen) == Add(key(5))


def test_failed_removal_is_retried_after_the_others() -> None:
    seen = situation(keys(1, 2, 3, 4, 5), any_of(1, 2, 3))
    assert next_step(seen) == Remove(key(5))
    assert next_step(replace(seen, failures={key(5): 1})) == Remove(key(4))


def test_leadership_is_not_transferred_to_a_witness() -> None:
    seen = situation(keys(1, 2, 3, 4), any_of(2, 3, 4))
    assert next_step(replace(seen, witnesses=frozenset(keys(4)))) == HandOver(key(3))
    waiting = next_step(replace(seen, witnesses=frozenset(keys(2, 3, 4))))
    assert isinstance(waiting, Wait)


@pytest.mark.requirement("K595-23")
def test_no_replica_is_added_before_it_has_caught_up() -> None:
    step = next_step(situation(keys(1, 2, 3), any_of(4, 5, 6)))
    assert isinstance(step, Wait)
    assert "not caught up" in step.reason


def test_target_entry_with_a_uuid_matches_only_that_replica() -> None:
    target = (*any_of(1, 2), key(3, 2))
    assert compare(keys(1, 2, 3), target).removing == (key(3),)
    assert isinstance(next_step(situation(keys(1, 2, 3), target, ready=(key(3, 3),))), Wait)
    assert next_step(situation(keys(1, 2, 3), target, ready=(key(3, 2),))) == Add(key(3, 2))
    doubled = (*keys(1, 2, 3), key(3, 2))
    assert next_step(situation(doubled, target)) == Remove(key(3))


def test_target_id_without_uuid_matches_its_newest_voter() -> None:
    doubled = (*keys(1, 2, 3), key(3, 2))
    assert compare(doubled, any_of(1, 2, 3)).retained == (key(1), key(2), key(3, 2))
    assert next_step(situation(doubled, any_of(1, 2, 3))) == Remove(key(3))


def test_leader_transfers_leadership_before_another_key_of_its_id_becomes_a_voter() -> None:
    target = (key(1, 2), *any_of(2, 3))
    step = next_step(situation(keys(1, 2, 3), target, ready=(key(1, 2),)))
    assert step == HandOver(key(3))


def test_witness_is_removed_before_another_witness_is_added() -> None:
    seen = situation(keys(1, 2), any_of(1, 3), ready=keys(3))
    assert next_step(replace(seen, witnesses=frozenset(keys(2)))) == Add(key(3))
    seen = replace(seen, witnesses=frozenset(keys(2, 3)))
    assert next_step(seen) == Remove(key(2)), "two of three would be witnesses"
    only = situation(keys(1), any_of(1, 3), ready=keys(3))
    assert next_step(replace(only, witnesses=frozenset(keys(3)))) == Add(key(3))


def test_leadership_is_not_transferred_to_a_leaving_or_silent_voter() -> None:
    voters = keys(1, 2, 3, 4)
    assert next_step(situation(voters, any_of(2, 3, 4), dead=keys(4))) == HandOver(key(3))
    waiting = next_step(situation(keys(1, 2), any_of(2), dead=keys(2)))
    assert isinstance(waiting, Wait)
    assert "hand over" in waiting.reason


@pytest.mark.requirement("K595-23")
def test_dead_voter_is_removed_first_if_live_voters_plus_a_new_one_are_no_majority() -> None:
    voters, target, dead = keys(1, 2, 3), any_of(1, 2, 4), keys(3)
    assert isinstance(next_step(situation(voters, target, dead=dead)), Wait), "no successor yet"
    step = next_step(situation(voters, target, dead=dead, ready=keys(4)))
    assert step == Remove(key(3))
    five = situation(keys(1, 2, 3, 4, 5), any_of(1, 2, 3, 4, 6), dead=keys(5), ready=keys(6))
    assert next_step(five) == Add(key(6)), "four live voters of six are enough"


def test_dead_voter_that_stays_blocks_the_plan_and_is_named() -> None:
    seen = situation(keys(1, 2, 3), any_of(1, 3, 4), dead=keys(3), ready=keys(4))
    step = next_step(seen)
    assert isinstance(step, Wait)
    assert f"voters without contact: {key(3)}" in step.reason
    assert "in place of" not in step.reason, "there is no replacement for it"


def test_dead_voter_with_a_new_replica_of_its_id_blocks_and_the_new_key_is_named() -> None:
    """A target by id alone means the voter, even if dead; the new replica must be given by its key."""
    newcomer = key(3, 2)
    by_id = situation(keys(1, 2, 3), any_of(1, 3, 4), dead=keys(3), ready=(key(4), newcomer))
    step = next_step(by_id)
    assert isinstance(step, Wait)
    assert f"to have {newcomer} in place of {key(3)}, name {newcomer}" in step.reason
    named = (*any_of(1, 4), newcomer)
    by_key = situation(keys(1, 2, 3), named, dead=keys(3), ready=(key(4), newcomer))
    assert next_step(by_key) == Remove(key(3))


def test_dead_voters_are_removed_first() -> None:
    seen = situation(keys(1, 2, 3, 4, 5), any_of(1, 4, 5), dead=keys(2))
    assert next_step(seen) == Remove(key(2))


def test_removal_keeps_the_requested_failure_tolerance() -> None:
    """Two of nine are dead: at eight voters only one more failure would be survived, at seven two are to be."""
    voters = keys(1, 2, 3, 4, 5, 6, 7, 8)
    seen = situation(voters, any_of(1, 2, 3, 4, 5, 6, 7), dead=keys(1, 2))
    step = next_step(seen)
    assert tolerance(8, 6) == 1
    assert step == Remove(key(8)), "as many failures are survived as before"
    seen = situation(keys(1, 2, 3, 4, 5, 6, 7, 8, 9), any_of(*range(1, 8)), dead=keys(1, 2))
    assert tolerance(9, 7) == 2
    assert isinstance(next_step(seen), Wait), "at eight it would be one"


@pytest.mark.requirement("K595-23")
def test_growing_by_two_waits_for_both_new_replicas() -> None:
    target = any_of(1, 2, 3, 4, 5)
    assert isinstance(next_step(situation(keys(1, 2, 3), target, ready=keys(4))), Wait)
    both = situation(keys(1, 2, 3), target, ready=keys(5, 4))
    assert next_step(both) == Add(key(4))
    assert next_step(situation(keys(1, 2, 3, 4), target, ready=keys(5))) == Add(key(5))


# -- properties

IDS = st.integers(1, 9)
KEYS = st.builds(key, IDS, st.integers(1, 2))
TARGET_ENTRIES = st.one_of(KEYS, IDS.map(ReplicaKey))


def distinct_ids(entries: list[ReplicaKey]) -> tuple[ReplicaKey, ...]:
    return tuple({entry.id: entry for entry in entries}.values())


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    voters = tuple(dict.fromkeys(draw(st.lists(KEYS, min_size=1, max_size=7))))
    target = distinct_ids(draw(st.lists(TARGET_ENTRIES, min_size=1, max_size=7)))
    newest = [v for v in voters if v == [each for each in voters if each.id == v.id][-1]]
    leader = draw(st.sampled_from(newest))
    live = {leader, *draw(st.lists(st.sampled_from(voters), max_size=7))}
    strangers = draw(st.lists(KEYS, max_size=7, unique=True))
    observers = tuple(
        Observer(each, draw(st.booleans())) for each in strangers if each not in voters
    )
    failures = draw(st.dictionaries(st.sampled_from((*voters, *strangers)), st.integers(1, 3)))
    witnesses = frozenset(draw(st.lists(st.sampled_from((*voters, *strangers)), max_size=2)))
    return Situation(leader, voters, target, frozenset(live), observers, witnesses, failures)


@given(situations())
@pytest.mark.requirement("K595-23")
def test_every_step_is_one_safe_change_towards_the_target(seen: Situation) -> None:
    step = next_step(seen)
    assert next_step(seen) == step, "the same situation, the same step"
    live = sum(each in seen.live for each in seen.voters)
    plan = compare(seen.voters, seen.target)
    match step:
        case Add(newcomer):
            assert newcomer not in seen.voters
            assert newcomer.id != seen.leader.id
            assert len(plan.new) >= len(plan.removing)
            assert next(each.ready for each in seen.observers if each.key == newcomer)
            assert len(seen.voters) == 1 or live >= majority(len(seen.voters) + 1)
            after = compare((*seen.voters, newcomer), seen.target)
            assert len(after.new) == len(plan.new) - 1
        case Remove(leaving):
            assert leaving in plan.removing
            assert leaving != seen.leader
            remaining = [each for each in seen.voters if each != leaving]
            left = sum(each in seen.live for each in remaining)
            assert left >= majority(len(remaining))
            floor = max(0, (len(seen.target) - 1) // 2 - 1)
            assert tolerance(len(remaining), left) >= min(floor, tolerance(len(seen.voters), live))
            if len(plan.new) >= len(plan.removing) and leaving not in seen.witnesses:
                assert leaving not in seen.live, (
                    "only a dead voter may be removed before its replacement is added"
                )
        case HandOver(successor):
            assert successor not in seen.witnesses
            assert successor in plan.retained
            assert successor in seen.live
            assert successor != seen.leader
        case Finish():
            assert not plan.new
            assert not plan.removing
        case Wait(reason):
            assert reason


@settings(max_examples=300)
@given(st.integers(0, 2**32))
@pytest.mark.requirement("K595-23")
def test_plan_converges_despite_any_failures(seed: int) -> None:
    """Leaders come and go, replicas are silent for a while, and the target may change half way."""
    random = Random(seed)
    everyone = keys(*range(1, 10))

    def some(most: int) -> list[int]:
        return random.sample(range(1, 10), random.randint(1, most))

    voters, target = keys(*some(7)), any_of(*some(7))
    leader = voters[0]
    for turn in range(MOST_STEPS):
        calm = turn >= MOST_STEPS // 2
        silent: set[ReplicaKey] = set()
        if not calm:
            silent = set(random.sample(everyone, random.randint(0, 3)))
            if random.random() < 0.1:
                target = any_of(*some(7))
            leader = random.choice([each for each in voters if each not in silent] or voters)
        live = frozenset(each for each in voters if each not in silent or each == leader)
        observers = tuple(
            Observer(each, each not in silent) for each in everyone if each not in voters
        )
        step = next_step(Situation(leader, voters, target, live, observers))
        before = voters
        match step:
            case Add(newcomer):
                voters = (*voters, newcomer)
            case Remove(leaving):
                voters = tuple(each for each in voters if each != leaving)
            case HandOver(successor):
                leader = successor
            case Finish():
                assert {each.id for each in voters} == {each.id for each in target}
                if calm:
                    return
        assert len(set(before) ^ set(voters)) <= 1
        assert leader in voters
    pytest.fail(f"{before} never became {target}: {step}")
