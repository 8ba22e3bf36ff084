"""Deadlines: computes when something is due, and dispatches it.

Owns the mapping from a role to its next deadline. Must not know what a deadline means beyond which
function to call. A TimerExpired that comes early does nothing.
"""

from quorum_node.raft import (
    alter_quorum,
    begin_end_epoch,
    discover_brokers,
    discovery,
    handover,
    membership,
    own_entry,
    remote_reads,
)
from quorum_node.raft.check_quorum import check_quorum
from quorum_node.raft.election import campaign, expire_campaign
from quorum_node.raft.epoch_state import NEVER_MS
from quorum_node.raft.fetch_answers import expire_parked
from quorum_node.raft.fetch_following import expire_follower
from quorum_node.raft.leadership import ChangePhase, Leader
from quorum_node.raft.outputs import HaltReason
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.roles import (
    Candidate,
    Follower,
    Link,
    Prospective,
    Resigned,
    Unattached,
)
from quorum_node.raft.transitions import become_unattached


def next_deadline_ms(replica: ReplicaState) -> float:
    """Earliest time at which `expire` has work to do; NEVER_MS if there is none."""
    role = replica.role
    if replica.halted:
        return NEVER_MS
    deadline_ms = replica.stop_deadline_ms or NEVER_MS
    match role:
        case Leader():
            role_ms = _leader_deadline_ms(replica, role)
            deadline_ms = min(deadline_ms, role_ms)
        case Follower():
            role_ms = _follower_deadline_ms(replica, role)
            deadline_ms = min(deadline_ms, role_ms)
        case Prospective() | Candidate():
            deadline_ms = min(deadline_ms, role.deadline_ms, *role.retries.values())
        case Unattached():
            if role.election_deadline_ms is not None:
                deadline_ms = min(deadline_ms, role.election_deadline_ms)
        case Resigned():
            deadline_ms = min(deadline_ms, role.deadline_ms)
    if discovery.is_searching(replica) and replica.discovery.outstanding is None:
        deadline_ms = min(deadline_ms, replica.discovery.deadline_ms)
    if (announce_ms := discover_brokers.next_deadline_ms(replica)) is not None:
        deadline_ms = min(deadline_ms, announce_ms)
    if replica.remote_reads:
        deadline_ms = min(deadline_ms, remote_reads.next_deadline_ms(replica))
    if replica.save_leader_at_ms < deadline_ms:
        return replica.save_leader_at_ms
    return deadline_ms


def expire(replica: ReplicaState) -> None:
    """Do everything that is due."""
    role = replica.role
    now_ms = replica.now_ms
    if replica.stop_deadline_ms is not None and replica.stop_deadline_ms <= now_ms:
        replica.halt(
            HaltReason.SHUTDOWN, "stop requested; no other voter took over leadership in time"
        )
        return
    if replica.save_leader_at_ms <= now_ms:
        replica.save_leader()
    match role:
        case Leader():
            _expire_leader(replica, role)
        case Follower():
            expire_follower(replica, role)
        case Prospective() | Candidate():
            expire_campaign(replica, role)
        case Unattached():
            if role.election_deadline_ms is not None and role.election_deadline_ms <= now_ms:
                role.election_deadline_ms = None
                campaign(replica)
        case Resigned():
            if role.deadline_ms <= now_ms:
                become_unattached(replica, replica.epoch)


def _follower_deadline_ms(replica: ReplicaState, follower: Follower) -> float:
    # Called after every event. Comparisons are used, as one call of min() costs as much as all of
    # them.
    deadline_ms = own_entry.deadline_ms(replica) if replica.asks_for_itself else NEVER_MS
    retry_ms = follower.retry_deadline_ms
    if retry_ms is not None and retry_ms < deadline_ms:
        deadline_ms = retry_ms
    campaign_ms = follower.campaign_deadline_ms
    if campaign_ms is not None:
        return min(campaign_ms, deadline_ms)
    if follower.fetch_deadline_ms < deadline_ms:
        deadline_ms = follower.fetch_deadline_ms
    silence_ms = follower.silence_deadline_ms
    if silence_ms is not None and silence_ms < deadline_ms and follower.link is Link.OPEN:
        deadline_ms = silence_ms
    return deadline_ms


def _leader_deadline_ms(replica: ReplicaState, leader: Leader) -> float:
    deadline_ms = leader.check_quorum_deadline_ms
    for parked in leader.parked.values():
        if parked.deadline_ms < deadline_ms:
            deadline_ms = parked.deadline_ms
    if leader.unendorsed and leader.begin_deadline_ms is not None:
        deadline_ms = min(deadline_ms, leader.begin_deadline_ms)
    change = leader.change
    if change is not None:
        deadline_ms = min(deadline_ms, change.deadline_ms)
        if change.phase is ChangePhase.PROBING and change.probe is None:
            deadline_ms = min(deadline_ms, change.retry_deadline_ms)
    if leader.handover is not None:
        deadline_ms = min(deadline_ms, leader.handover.deadline_ms)
    if alter_quorum.is_busy(replica, leader):
        deadline_ms = min(deadline_ms, alter_quorum.next_deadline_ms(replica, leader))
    return deadline_ms


def _expire_leader(replica: ReplicaState, leader: Leader) -> None:
    expire_parked(replica, leader)
    check_quorum(replica, leader)
    if replica.role is not leader:
        return
    if leader.begin_deadline_ms is not None and leader.begin_deadline_ms <= replica.now_ms:
        begin_end_epoch.send_begin(replica, leader)
    membership.expire_change(replica, leader)
    membership.retry_probe(replica, leader)
    alter_quorum.expire_alterations(replica, leader)
    handover.finish_if_ready(replica, leader)
