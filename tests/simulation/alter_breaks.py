"""AlterQuorum broken on purpose, one way at a time: what scenarios, unit tests and the simulation have to catch.

Same shape as `breaks.py`. A docstring says what is broken and, behind "Would:", what that would do.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quorum_node.raft import (
    alter_quorum,
    alteration,
    membership,
    planned_steps,
    safety,
    transitions,
)
from quorum_node.raft.alteration import Situation, compare
from quorum_node.raft.leadership import Leader
from quorum_node.raft.log_appends import append_control
from quorum_node.raft.messages import VotersPosition
from quorum_node.raft.replica_state import ReplicaState

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def drop_the_target_at_a_leader_change(patch: Patch) -> None:
    """A new leader starts with the voters only and drops the plan of the previous one.

    Would: stop half way, with unintended voters, whenever a leader fails.
    """
    real = transitions.become_leader

    def forgetful(replica: ReplicaState, *arguments: Any) -> Leader:
        leader = real(replica, *arguments)
        entry = replica.voters._entries[-1]
        record = replace(entry.record, target_voters=None)
        replica.voters._entries[-1] = replace(entry, record=record)
        return leader

    patch.setattr("quorum_node.raft.election.become_leader", forgetful)


def drop_the_target_at_the_first_step(patch: Patch) -> None:
    """A record that changes a voter does not carry the target on.

    Would: end every plan after one change.
    """
    real = membership._append

    def bare(replica: ReplicaState, voters: Any) -> VotersPosition:
        entry = replica.voters._entries[-1]
        record = replace(entry.record, target_voters=None)
        replica.voters._entries[-1] = replace(entry, record=record)
        return real(replica, voters)

    patch.setattr(membership, "_append", bare)


def remove_before_adding(patch: Patch) -> None:
    """Those who leave go first, and only then the others come.

    Would: shrink the quorum on the way, and with it the number of failures that it survives.
    """

    def removals_first(situation: Situation) -> Any:
        plan = compare(situation.voters, situation.target)
        if plan.removing and len(situation.voters) > 1:
            return alteration._removal(situation, plan)
        return alteration.next_step(situation)

    patch.setattr(planned_steps, "next_step", removals_first)


def add_all_at_once(patch: Patch) -> None:
    """The first step writes the target as the new voters, all of them in one record.

    Would: let the old and the new voters elect two leaders of one epoch.
    """

    def at_once(replica: ReplicaState, leader: Leader, key: Any, *arguments: Any) -> None:
        latest = replica.voters.latest
        voters = latest.voters
        for wanted in latest.record.target_voters or ():
            for each, progress in leader.progress.items():
                if each.id == wanted.id and each not in voters:
                    voters = voters.added(membership.voter_entry(each, progress.endpoints))
        append_control(replica, (replace(latest.record, voters=voters.voters),))

    patch.setattr(membership, "begin_planned_add", at_once)


def step_before_the_last_is_committed(patch: Patch) -> None:
    """The next step of a plan does not wait for the commit of the previous one.

    Would: have two uncommitted changes, with majorities that need not overlap.
    """

    def hasty(replica: ReplicaState, leader: Leader) -> bool:
        return leader.handover is None and replica.is_voter and not replica.disk_low

    patch.setattr(planned_steps, "_settled", hasty)


def promote_any_target(patch: Patch) -> None:
    """An observer counts as ready whether it has caught up or not.

    Would: make an empty disk a voter, and let commits wait for it.
    """
    real = planned_steps.situation

    def all_ready(replica: ReplicaState, leader: Leader) -> Situation:
        seen = real(replica, leader)
        observers = tuple(replace(each, ready=True) for each in seen.observers)
        return replace(seen, observers=observers)

    patch.setattr(planned_steps, "situation", all_ready)
    patch.setattr(planned_steps, "_new_voter_is_missing", lambda replica, leader: False)


def answer_before_the_commit(patch: Patch) -> None:
    """AlterQuorum is answered when the target is appended.

    Would: acknowledge a target that the next leader has never received.
    """
    real = alter_quorum._advance_request

    def at_once(replica: ReplicaState, leader: Leader) -> bool:
        waiting = leader.alterations[0]
        more = real(replica, leader)
        if waiting.position is not None and waiting in leader.alterations:
            alter_quorum._finish(replica, leader, None, waiting.position)
        return more

    patch.setattr(alter_quorum, "_advance_request", at_once)


def let_single_changes_through(patch: Patch) -> None:
    """AddVoter and RemoveVoter work while there is a target.

    Would: have two hands pull at the voters, each undoing what the other did.
    """
    patch.setattr(membership, "_planned_elsewhere", lambda replica: None)


def remove_the_leader_like_any_other(patch: Patch) -> None:
    """A leader that is to leave removes itself, at its turn, without handing over.

    Would: go on without a leader for an election timeout, and count commits on a leader that is no voter.
    """

    def by_id(situation: Situation, plan: Any) -> Any:
        leaving = min(plan.removing, key=lambda key: -key.id)
        return alteration.Remove(leaving)

    patch.setattr(alteration, "_removal", by_id)


def give_a_live_majority_away(patch: Patch) -> None:
    """Neither the plan nor the leader counts the live voters before a removal.

    Would: stop a quorum of which a majority was alive.
    """
    patch.setattr(alteration, "_unsafe_removal", lambda situation, leaving: None)
    patch.setattr(safety, "check_remove", lambda replica, key: None)


def take_a_target_that_voters_would_drop(patch: Patch) -> None:
    """A target is accepted although a voter doesn't support target voters.

    Would: lose the plan silently as soon as that voter leads.
    """
    patch.setattr(alter_quorum, "_voters_without_feature", lambda replica, leader: [])


_CORE = "tests/unit/raft/test_raft_alter_quorum.py::"
_STEPS = "tests/unit/raft/test_raft_planned_steps.py::"
BY_SIMULATION: tuple[Break, ...] = (
    drop_the_target_at_the_first_step,
    add_all_at_once,
    step_before_the_last_is_committed,
)
"""Caught by an invariant, or by a plan that never ends."""

BY_SCENARIO: tuple[tuple[Break, str], ...] = (
    (drop_the_target_at_a_leader_change, "alter-quorum-leader-dies"),
    (drop_the_target_at_the_first_step, "alter-quorum"),
    (remove_before_adding, "alter-quorum"),
    (add_all_at_once, "alter-quorum"),
    (remove_the_leader_like_any_other, "alter-quorum"),
    (answer_before_the_commit, "alter-quorum"),
    (let_single_changes_through, "alter-quorum-cancel"),
    (promote_any_target, "alter-quorum-dead-voter"),
)

BY_TEST: tuple[tuple[Break, str], ...] = (
    (give_a_live_majority_away, f"{_STEPS}test_live_majority_is_never_removed"),
    (
        take_a_target_that_voters_would_drop,
        f"{_CORE}test_target_is_rejected_while_a_voter_lacks_the_feature",
    ),
    (
        answer_before_the_commit,
        f"{_CORE}test_alter_quorum_response_follows_the_commit_of_the_target_not_its_append",
    ),
)
