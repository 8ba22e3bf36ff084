"""Executes the plan of an AlterQuorum on the leader, one step at a time.

Owns when a step is taken, and its description. Must not choose the steps (`alteration.py`), make
the changes (`membership.py`, `handover.py`), or know requests (`alter_quorum.py`).
Source: KIP-595, "Reassignment Algorithm" (K595-23).

The target is part of the voters record, so it is durable and is truncated with that record. A new
leader can continue from it: no leader keeps further state of a plan that its successor would need.
"""

from dataclasses import replace

from quorum_node.raft import handover, membership, safety
from quorum_node.raft.alteration import (
    Add,
    Finish,
    HandOver,
    Observer,
    Remove,
    Situation,
    Step,
    Wait,
    next_step,
)
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.leadership import ChangePhase, Leader, Progress
from quorum_node.raft.log_appends import append_control
from quorum_node.raft.messages import VotersPosition, voter_entry
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.safety import Refusal
from quorum_node.records.identity import ReplicaKey

LOOK_AGAIN_MS = 50.0
"""Interval at which a leader checks whether a waiting plan can continue."""
ADD_TIMEOUT_MS = 10_000.0
"""After this time a planned add without a record is given up, so that another observer can be tried."""


def proceed_plan(replica: ReplicaState, leader: Leader) -> None:
    """Take one step, if one is possible and a check is due."""
    if replica.now_ms < leader.plan_look_ms:
        return
    if replica.voters.latest.record.target_voters is None:
        return
    if _new_voter_is_missing(replica, leader):
        membership.give_up_planned_add(leader)
    if is_unwritten_add(leader) or _settled(replica, leader):
        leader.plan_look_ms = replica.now_ms + LOOK_AGAIN_MS
    if _settled(replica, leader):
        _take(replica, leader, next_step(situation(replica, leader)))


def next_look_ms(replica: ReplicaState, leader: Leader) -> float:
    """When the plan is to be checked again.

    NEVER_MS while it waits for a commit, which triggers the check.
    """
    if not (is_unwritten_add(leader) or _settled(replica, leader)):
        return float("inf")
    return max(leader.plan_look_ms, replica.now_ms)


def situation(replica: ReplicaState, leader: Leader) -> Situation:
    """The situation from the leader's view."""
    voters = replica.voters.latest.voters
    live = {replica.key}
    observers = []
    for key, progress in leader.progress.items():
        caught_up = safety.is_caught_up(replica, progress)
        if key in voters:
            if caught_up:
                live.add(key)
        elif key.uuid is not None:
            ready = caught_up and _listens(key, progress)
            observers.append(Observer(key, ready))
    target = replica.voters.latest.record.target_voters or ()
    witnesses = frozenset(
        key for key in (replica.key, *leader.progress) if safety.is_witness(replica, leader, key)
    )
    return Situation(
        replica.key,
        voters.ordered_keys,
        target,
        frozenset(live),
        tuple(observers),
        witnesses,
        leader.plan_failures,
    )


def outlook(replica: ReplicaState, leader: Leader) -> str:
    """Description of the present step, or of what the plan waits for; empty without a plan."""
    if replica.voters.latest.record.target_voters is None:
        return ""
    change = leader.change
    if change is not None:
        return f"{change.kind.value} {change.voter}: {change.phase.value}"
    if leader.handover is not None:
        return "handing over leadership to a voter that stays"
    if not replica.voters.latest_is_committed:
        return f"waiting for the commit of the voters record at {replica.voters.latest.offset}"
    if not leader.own_epoch_committed:
        return f"waiting for the first commit of epoch {replica.epoch}"
    match next_step(situation(replica, leader)):
        case Add(key):
            endpoints = leader.progress[key].endpoints
            refusal = safety.check_add(replica, key, endpoints, count_newcomer=False)
            return f"next: add {key}" if refusal is None else _refused(f"add {key}", refusal)
        case Remove(key):
            refusal = safety.check_remove(replica, key)
            return f"next: remove {key}" if refusal is None else _refused(f"remove {key}", refusal)
        case HandOver(successor):
            return f"next: hand over leadership to {successor}"
        case Finish():
            return "next: clear the target, which is reached"
        case Wait(reason):
            return f"waiting: {reason}"


def _refused(what: str, refusal: Refusal) -> str:
    return f"waiting: can't {what} now: {refusal.error.value}: {refusal.message}"


def write_target(replica: ReplicaState, target: tuple[ReplicaKey, ...] | None) -> VotersPosition:
    """Write the same voters with another target. The record before it must be committed."""
    assert replica.voters.latest_is_committed, "a second record before the first is committed"
    record = replace(replica.voters.latest.record, target_voters=target)
    replica.planned_handovers = 0
    return VotersPosition(append_control(replica, (record,)), replica.epoch)


def is_unwritten_add(leader: Leader) -> bool:
    """Whether the change is a planned add without a record, which can be dropped without effect."""
    change = leader.change
    return change is not None and change.planned and change.phase is not ChangePhase.COMMITTING


def _new_voter_is_missing(replica: ReplicaState, leader: Leader) -> bool:
    """Whether the new voter stopped fetching after its add began; another observer may be available."""
    change = leader.change
    if change is None or not is_unwritten_add(leader):
        return False
    progress = leader.progress.get(change.voter)
    return progress is None or not safety.is_fetching(replica, progress)


def _settled(replica: ReplicaState, leader: Leader) -> bool:
    """Whether no change and no handover is in progress, and all voters records are committed."""
    return (
        leader.change is None
        and leader.handover is None
        and leader.own_epoch_committed
        and replica.voters.latest_is_committed
        and replica.is_voter
        and not replica.disk_low
    )


def _take(replica: ReplicaState, leader: Leader, step: Step) -> None:
    match step:
        case Add(key):
            endpoints = leader.progress[key].endpoints
            membership.begin_planned_add(replica, leader, key, endpoints, ADD_TIMEOUT_MS)
        case Remove(key):
            membership.begin_planned_removal(replica, leader, key)
        case HandOver(successor):
            if replica.now_ms >= replica.hand_over_again_ms:
                replica.planned_handovers += 1
                replica.hand_over_again_ms = replica.now_ms + _pause_ms(replica)
                handover.start(replica, leader, None, successor)
        case Finish():
            write_target(replica, None)
        case Wait():
            pass


def _listens(key: ReplicaKey, progress: Progress) -> bool:
    return voter_entry(key, progress.endpoints).endpoint(CONTROLLER) is not None


def _pause_ms(replica: ReplicaState) -> float:
    """A leader that is elected again waits longer after each election before it retries a hand-over."""
    attempts = min(replica.planned_handovers, 6)
    return replica.config.election_timeout_ms * float(2**attempts)
