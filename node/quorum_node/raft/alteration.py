"""Chooses the next step from the voters of a quorum to its target voters (pure).

Owns the choice of one single-voter change at a time. Must not know how a change is made, replicas,
messages or time. It is deterministic: every leader chooses the same step in the same situation.
Source: KIP-595, "Reassignment Algorithm" (K595-23); change rule and tolerance rule of this project.

1. Compare: voters that stay, voters to remove, and targets to add.
2. Nothing to add and nothing to remove: the target is reached and can be cleared.
3. At least as many to add as to remove: add an observer that has caught up, if the live voters are
a majority of the larger set even with the new voter counted as dead. If they are not, and a
successor is ready, first remove a dead voter.
4. Otherwise remove one voter, dead ones first, this leader last. The leader hands over leadership,
and the next leader removes it.
5. A removal must leave a majority of live voters, and a failure tolerance of at least that of the
target less one. Witnesses stay fewer than a majority: if this blocks all additions, first remove a
witness.
6. With an odd number of voters, none to remove and at least two to add, two observers have to be
ready. An even number of voters tolerates no more failures and has one more voter that can fail;
this rule limits that state to the time of one commit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorum_node.quorum_arithmetic import (
    least_tolerance,
    live_to_add,
    live_to_remove,
    lowers_tolerance,
    may_have_witnesses,
    tolerance,
)
from quorum_node.records.identity import ReplicaKey


@dataclass(frozen=True, slots=True)
class Observer:
    """A replica that is not a voter. `ready`: it has caught up, and its address is known."""

    key: ReplicaKey
    ready: bool


@dataclass(frozen=True, slots=True)
class Situation:
    """The state from the leader's view. `live`: voters that fetch and have caught up, including the leader.

    `witnesses`: replicas that never become leader. `failures`: failed attempts of this leader to
    add or remove a replica since the voters changed; replicas with fewer failures are tried first.
    """

    leader: ReplicaKey
    voters: tuple[ReplicaKey, ...]
    target: tuple[ReplicaKey, ...]
    live: frozenset[ReplicaKey]
    observers: tuple[Observer, ...] = ()
    witnesses: frozenset[ReplicaKey] = frozenset()
    failures: Mapping[ReplicaKey, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Add:
    key: ReplicaKey


@dataclass(frozen=True, slots=True)
class Remove:
    key: ReplicaKey


@dataclass(frozen=True, slots=True)
class HandOver:
    """Hand over leadership to a voter that stays."""

    successor: ReplicaKey


@dataclass(frozen=True, slots=True)
class Finish:
    """The voters equal the target: clear it."""


@dataclass(frozen=True, slots=True)
class Wait:
    """No step is possible now. `reason` states what is missing."""

    reason: str


Step = Add | Remove | HandOver | Finish | Wait


@dataclass(frozen=True, slots=True)
class Comparison:
    """`new`: entries of the target, possibly without UUID. The other fields are voters."""

    retained: tuple[ReplicaKey, ...]
    removing: tuple[ReplicaKey, ...]
    new: tuple[ReplicaKey, ...]


def compare(voters: tuple[ReplicaKey, ...], target: tuple[ReplicaKey, ...]) -> Comparison:
    """Match voters and target.

    An entry without UUID matches the newest voter of its id, or else any replica.
    """
    retained, new = [], []
    for wanted in target:
        fitting = [key for key in voters if fits(wanted, key)]
        if fitting:
            retained.append(fitting[-1])
        else:
            new.append(wanted)
    removing = tuple(key for key in voters if key not in retained)
    return Comparison(tuple(retained), removing, tuple(new))


def next_step(situation: Situation) -> Step:
    """The next step; see the module."""
    plan = compare(situation.voters, situation.target)
    if not plan.new and not plan.removing:
        return Finish()
    growing = len(plan.new) >= len(plan.removing)
    step = _addition(situation, plan) if growing else _removal(situation, plan)
    if not isinstance(step, Wait):
        return step
    hint = _unnamed_successors(situation, plan)
    return Wait(f"{step.reason}; {hint}") if hint else step


def _addition(situation: Situation, plan: Comparison) -> Step:
    wanted = plan.new
    ready = [observer for each in wanted if (observer := _best_for(situation, each)) is not None]
    ready.sort(key=lambda observer: _failures(situation, observer.key))
    size = len(situation.voters)
    needed = 2 if not plan.removing and len(wanted) > 1 and size % 2 == 1 else 1
    if len(ready) < needed:
        missing = [str(each) for each in wanted if _best_for(situation, each) is None]
        return Wait(f"not caught up as an observer yet: {_listed(missing)}")
    fitting = [each for each in ready if not _too_many_witnesses(situation, each.key)]
    if not fitting:
        return _witness_removal(situation, plan)
    new_voter = fitting[0].key
    live, enough = _live(situation, situation.voters), live_to_add(size)
    if live < enough:
        dead = [key for key in plan.removing if key not in situation.live]
        if dead and _unsafe_removal(situation, dead[0]) is None:
            return Remove(dead[0])
        silent = _listed([str(key) for key in situation.voters if key not in situation.live])
        return Wait(
            f"{live} live voters, {enough} needed to add {new_voter}; voters without contact: {silent}"
        )
    if new_voter.id == situation.leader.id:
        return _hand_over(situation, plan)
    return Add(new_voter)


def _too_many_witnesses(situation: Situation, new_voter: ReplicaKey) -> bool:
    witnesses = sum(key in situation.witnesses for key in (*situation.voters, new_voter))
    return not may_have_witnesses(len(situation.voters) + 1, witnesses)


def _witness_removal(situation: Situation, plan: Comparison) -> Step:
    """The removal of a witness, so that another one can be added."""
    reason = "half of the voters would be witnesses, which can't become leader"
    for key in plan.removing:
        if key in situation.witnesses and key != situation.leader:
            unsafe = _unsafe_removal(situation, key)
            if unsafe is None:
                return Remove(key)
            reason = unsafe
    return Wait(reason)


def _removal(situation: Situation, plan: Comparison) -> Step:
    others = [key for key in plan.removing if key != situation.leader]
    if not others:
        return _hand_over(situation, plan)
    # Among equals the highest id first, as in the KIP's example; with the same id the oldest.
    order = sorted(
        others, key=lambda key: (_failures(situation, key), key in situation.live, -key.id)
    )
    leaving = order[0]
    unsafe = _unsafe_removal(situation, leaving)
    return Remove(leaving) if unsafe is None else Wait(unsafe)


def _hand_over(situation: Situation, plan: Comparison) -> Step:
    """Hand over to the last of the live voters that stay: it was added most recently."""
    for key in reversed(plan.retained):
        newest = next(each for each in reversed(situation.voters) if each.id == key.id)
        may_lead = key == newest and key not in situation.witnesses and key != situation.leader
        if may_lead and key in situation.live:
            return HandOver(key)
    return Wait(
        f"the leader {situation.leader} has to hand over, and no other voter that stays can lead now"
    )


def _unsafe_removal(situation: Situation, leaving: ReplicaKey) -> str | None:
    """Why `leaving` can't be removed now, or None."""
    remaining = tuple(key for key in situation.voters if key != leaving)
    size = len(situation.voters)
    live, needed = _live(situation, remaining), live_to_remove(size)
    if live < needed:
        return f"without {leaving} {live} live voters would remain, {needed} needed"
    if lowers_tolerance(size, _live(situation, situation.voters), live, len(situation.target)):
        after, floor = tolerance(len(remaining), live), least_tolerance(len(situation.target))
        return (
            f"without {leaving} only {after} more failures would be tolerated, {floor} are required"
        )
    return None


def _best_for(situation: Situation, wanted: ReplicaKey) -> Observer | None:
    """The ready observer for an entry of the target; among several the one with the fewest failures."""
    fitting = [each for each in situation.observers if each.ready and fits(wanted, each.key)]
    return min(fitting, key=lambda each: _failures(situation, each.key), default=None)


def fits(wanted: ReplicaKey, key: ReplicaKey) -> bool:
    """Whether a replica matches an entry of the target."""
    return wanted == key or (wanted.uuid is None and wanted.id == key.id)


def _unnamed_successors(situation: Situation, plan: Comparison) -> str:
    """A hint for targets without UUID that a voter without contact matches by its id alone, while a
    new replica of that id is ready.

    The plan never replaces one by the other without a request: the leader can't determine whether
    the voter's disk is lost for good.
    """
    bare = {wanted.id for wanted in situation.target if wanted.uuid is None}
    silent = [key for key in plan.retained if key.id in bare and key not in situation.live]
    pairs = [
        (key, observer.key)
        for key in silent
        for observer in situation.observers
        if observer.ready and observer.key.id == key.id
    ]
    return _listed(
        [f"to have {new} in place of {old}, name {new} in the target" for old, new in pairs]
    )


def _failures(situation: Situation, key: ReplicaKey) -> int:
    return situation.failures.get(key, 0)


def _live(situation: Situation, voters: tuple[ReplicaKey, ...]) -> int:
    return sum(key in situation.live for key in voters)


def _listed(names: list[str]) -> str:
    return ", ".join(names)
