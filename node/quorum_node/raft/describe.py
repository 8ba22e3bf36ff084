"""DescribeQuorum (leader only), and the local description of a replica.

Owns how progress is reported. Must not change anything. Source: KIP-595, "DescribeQuorum"
(K595-22).
"""

from quorum_node.raft import planned_steps, safety
from quorum_node.raft.alteration import fits
from quorum_node.raft.commit import durable_end_of, required_to_form
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.description import ReplicaDescription
from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Leader, Progress
from quorum_node.raft.messages import NO_LEADER, DescribeQuorumResponse, ReplicaProgress
from quorum_node.raft.reads import state_as_of_ms
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.roles import Follower
from quorum_node.records.identity import Endpoint, ReplicaKey

OBSERVER_SILENCE_MS = 5 * 60 * 1000
"""Observers that have not fetched for so long are no longer reported."""


def handle_describe(replica: ReplicaState, request_id: int) -> None:
    """Leader, epoch, high watermark, voters and observers with their progress."""
    leader = replica.role
    current = replica.current_leader()
    if not isinstance(leader, Leader) or replica.halted:
        replica.respond(request_id, DescribeQuorumResponse(RaftError.NOT_QUORUM_LEADER, current))
        return
    replica.respond(
        request_id,
        DescribeQuorumResponse(
            RaftError.NONE,
            current,
            replica.high_watermark,
            voters_progress(replica, leader),
            observers_progress(replica, leader),
            targets_progress(replica, leader),
        ),
    )


def voters_progress(replica: ReplicaState, leader: Leader) -> tuple[ReplicaProgress, ...]:
    """Every voter of the latest set, in its order."""
    return tuple(
        _progress(replica, leader, voter.key, voter.endpoints)
        for voter in replica.voters.latest.voters
    )


def observers_progress(replica: ReplicaState, leader: Leader) -> tuple[ReplicaProgress, ...]:
    """All other replicas that fetch, by id."""
    voters, found = replica.voters.latest.voters, []
    for progress in leader.progress.values():
        if progress.key in voters or progress.last_fetch_ms is None:
            continue
        if replica.now_ms - progress.last_fetch_ms < OBSERVER_SILENCE_MS:
            found.append(_progress(replica, leader, progress.key, progress.endpoints))
    return tuple(sorted(found, key=lambda each: each.key.id))


def targets_progress(replica: ReplicaState, leader: Leader) -> tuple[ReplicaProgress, ...] | None:
    """For every target voter the voter or observer that matches it, if one is known."""
    targets = replica.voters.latest.record.target_voters
    if targets is None:
        return None
    known = (*observers_progress(replica, leader), *voters_progress(replica, leader))
    return tuple(
        next(
            (each for each in reversed(known) if fits(wanted, each.key)),
            ReplicaProgress(wanted, (), -1, None, None, False, False),
        )
        for wanted in targets
    )


def describe(replica: ReplicaState) -> ReplicaDescription:
    """The local description. Cheap enough to be computed at every scrape of the metrics."""
    voters, role = replica.voters, replica.role
    leader = role if isinstance(role, Leader) else None
    current, partial = replica.current_leader(), replica.partial
    return ReplicaDescription(
        key=replica.key,
        role=role.name,
        is_voter=replica.is_voter,
        cluster_id=replica.cluster_id,
        leader_id=current.leader_id,
        leader_epoch=replica.epoch,
        leader_key=_leader_key(replica),
        leader_endpoint=current.endpoint,
        voted=replica.voted,
        log_start_offset=replica.start.end_offset,
        log_end_offset=replica.log_end,
        durable_end_offset=replica.durable_end,
        high_watermark=replica.high_watermark,
        leader_high_watermark=(
            replica.leader_high_watermark if leader is None else replica.high_watermark
        ),
        last_leader_contact_ms=replica.now_ms if leader else replica.last_leader_contact_ms,
        voters=voters.latest.voters.voters,
        voters_position=voters.latest.position,
        voters_committed=voters.latest_is_committed,
        committed_voters=voters.committed.voters.voters,
        committed_voters_position=voters.committed.position,
        pending_change=not voters.latest_is_committed
        or (leader is not None and leader.change is not None),
        own_epoch_committed=leader is not None and leader.own_epoch_committed,
        formed=replica.formed,
        initial_voters=required_to_form(replica, voters.latest.record.initial_voters),
        as_of_ms=state_as_of_ms(replica),
        keeping_up=role.keeping_up if isinstance(role, Follower) else None,
        disk_low=replica.disk_low,
        halted=replica.halted,
        log_end_epoch=replica.epochs.last_epoch,
        witness=replica.config.witness,
        refused_shorter=replica.refused_shorter,
        snapshot=replica.snapshot,
        partial_snapshot=(partial.id, partial.position, partial.size_bytes) if partial else None,
        voters_progress=voters_progress(replica, leader) if leader else (),
        observers_progress=observers_progress(replica, leader) if leader else (),
        target_voters=voters.latest.record.target_voters,
        plan=planned_steps.outlook(replica, leader) if leader else "",
        recovered_epoch=replica.recovered_epoch,
        corrupt_fetch=role.corrupt if isinstance(role, Follower) else None,
    )


def _leader_key(replica: ReplicaState) -> ReplicaKey | None:
    role = replica.role
    if isinstance(role, Leader):
        return replica.key
    if replica.leader_id == NO_LEADER:
        return None
    newest = replica.voters.latest.voters.newest(replica.leader_id)
    if newest is None:
        return None
    if isinstance(role, Follower) and newest.endpoint(CONTROLLER) != role.endpoint:
        for voter in replica.voters.latest.voters:
            if voter.key.id == role.leader_id and voter.endpoint(CONTROLLER) == role.endpoint:
                return voter.key
    return newest.key


def _progress(
    replica: ReplicaState, leader: Leader, key: ReplicaKey, endpoints: tuple[Endpoint, ...]
) -> ReplicaProgress:
    if key == replica.key:
        now_ms = replica.now_ms
        witness = replica.config.witness
        return ReplicaProgress(
            key, endpoints, replica.log_end, now_ms, now_ms, True, True, False, witness
        )
    progress = leader.progress.get(key) or Progress(key)
    return ReplicaProgress(
        key,
        endpoints,
        durable_end_of(replica, leader, key),
        progress.last_fetch_ms,
        progress.last_caught_up_ms,
        safety.is_fetching(replica, progress),
        safety.is_caught_up(replica, progress),
        progress.stock,
        progress.witness,
        progress.went_back,
        progress.damaged_from,
    )
