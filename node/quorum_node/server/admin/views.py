"""Descriptions of the core as documents of the API. Pure translation, no I/O."""

from dataclasses import dataclass

from quorum_node.api import (
    DiscoveredBroker,
    DiscoveredBrokers,
    EndpointModel,
    NodeDescription,
    QuorumDescription,
    ReplicaStatus,
    Role,
    SnapshotDescription,
    StateDescription,
    StorageDescription,
    TargetVoter,
    TlsDescription,
    VoterModel,
    VotersPosition,
    WentBack,
)
from quorum_node.raft.description import ReplicaDescription
from quorum_node.raft.messages import NO_LEADER, DiscoverBrokersResponse, ReplicaProgress
from quorum_node.raft.roles import RoleName
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter, uuid_text
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.version import VERSION
from quorum_node.storage.snapshots import SnapshotStore

MAX_LAG_RECORDS = 1000
"""In records: a follower further behind the leader's high watermark than this is not caught up."""


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Whether a replica is caught up, the reason as text, and its lag in records (None: not known)."""

    caught_up: bool
    reason: str
    lag: int | None


def catch_up(d: ReplicaDescription, now_ms: float, fetch_timeout_ms: float) -> CatchUp:
    """A leader is caught up once it has committed a record of its own epoch; others when they fetched recently and little is missing."""
    if d.halted:
        return CatchUp(False, "the replica has stopped", None)
    if (waits := _why_a_static_quorum_waits(d)) is not None:
        return CatchUp(False, waits, None)
    if d.role is RoleName.LEADER:
        if d.own_epoch_committed:
            return CatchUp(True, "leads, own epoch committed", 0)
        return CatchUp(False, "leads, but nothing of its epoch is committed yet", 0)
    if d.leader_id == NO_LEADER:
        return CatchUp(False, leaderless(d), None)
    if d.last_leader_contact_ms is None:
        return CatchUp(False, f"no answer yet from leader {d.leader_id}", None)
    age_ms = now_ms - d.last_leader_contact_ms
    if age_ms > fetch_timeout_ms:
        text = f"last answer from leader {d.leader_id} {age_ms:.0f} ms ago"
        return CatchUp(False, text + _why_a_witness_waits(d), None)
    if d.leader_high_watermark < 0:
        text = f"leader {d.leader_id} has committed nothing in its epoch yet"
        return CatchUp(False, text, None)
    if d.corrupt_fetch is not None:
        sent = d.corrupt_fetch
        text = f"leader {sent.leader_id} sends damaged records from offset {sent.offset} on"
        return CatchUp(False, f"{text} ({sent.times} times in a row): {sent.detail}", None)
    lag = max(0, d.leader_high_watermark - d.log_end_offset)
    if lag > MAX_LAG_RECORDS:
        return CatchUp(False, f"{lag} committed records are missing", lag)
    return CatchUp(True, f"follows leader {d.leader_id}", lag)


def _why_a_static_quorum_waits(d: ReplicaDescription) -> str | None:
    """Why a quorum of controller.quorum.voters has not formed; None if it has formed, or is not static."""
    missing = [str(voter.key.id) for voter in d.voters if voter.key.uuid is None]
    if not missing or d.voters_position.offset >= 0:
        return None
    text = "the quorum of controller.quorum.voters has not formed yet: it needs all its voters once"
    if d.role is RoleName.LEADER:
        return f"{text}; not seen yet: {', '.join(missing)}"
    return text


def leaderless(d: ReplicaDescription) -> str:
    """ "no leader is known", and for a witness the reason why it does not become the leader."""
    return "no leader is known" + _why_a_witness_waits(d)


def _why_a_witness_waits(d: ReplicaDescription) -> str:
    if not d.witness or not d.is_voter:
        return ""
    others = [str(voter.key.id) for voter in d.voters if voter.key != d.key]
    way_out = "or, if that is impossible, restart this node with quorum.witness=false"
    text = ", and this voter is a witness, which never becomes a candidate: "
    if not others:
        return f"{text}there is no other voter. Restart this node with quorum.witness=false"
    if d.refused_shorter is not None:
        return (
            f"{text}voter {d.refused_shorter.id} asked for its vote, but lacks records that this"
            f" node has. Bring back a voter that has them, {way_out}"
        )
    return f"{text}bring back one of the other voters ({', '.join(others)}), {way_out}"


def state_document(d: ReplicaDescription, applied_offset: int, now_ms: float) -> StateDescription:
    """The state of this replica."""
    keeping_up, age_ms = d.keeping_up, None
    if keeping_up is not None and d.last_leader_contact_ms is not None:
        age_ms = keeping_up.caught_up_age_ms + max(0, round(now_ms - d.last_leader_contact_ms))
    return StateDescription(
        applied_offset=applied_offset,
        consistent=applied_offset >= d.log_start_offset,
        caught_up_age_ms=age_ms,
        dirty_offset=None if keeping_up is None else keeping_up.dirty_offset,
    )


def role_of(d: ReplicaDescription) -> Role:
    """The role's name; a follower or seeker that is not a voter is an observer."""
    if not d.is_voter and d.role in (RoleName.FOLLOWER, RoleName.UNATTACHED):
        return Role.OBSERVER
    return Role(d.role.value)


def node_document(
    d: ReplicaDescription,
    state: CatchUp,
    storage: StorageDescription,
    started_at: str,
    endpoints: tuple[Endpoint, ...],
    *,
    partition: int,
    partitions: int,
    latest_snapshot: SnapshotDescription | None = None,
    state_held: StateDescription | None = None,
    tls: TlsDescription | None = None,
) -> NodeDescription:
    """The description of the node for /v1/node."""
    return NodeDescription(
        node_id=d.key.id,
        replica_uuid=uuid_text(d.key.uuid),
        cluster_id=d.cluster_id,
        role=role_of(d),
        is_voter=d.is_voter,
        leader_id=None if d.leader_id == NO_LEADER else d.leader_id,
        leader_epoch=d.leader_epoch,
        high_watermark=d.high_watermark,
        log_end_offset=d.log_end_offset,
        log_start_offset=d.log_start_offset,
        caught_up=state.caught_up,
        state=state_held,
        formed=d.formed,
        storage=storage,
        started_at=started_at,
        version=VERSION,
        endpoints=_endpoints(endpoints),
        witness=d.witness,
        latest_snapshot=latest_snapshot,
        partition=partition,
        partitions=partitions,
        log_end_epoch=d.log_end_epoch,
        voters=[voter_model(voter) for voter in d.voters],
        tls=tls,
    )


def discovered_document(answer: DiscoverBrokersResponse, partition: int) -> DiscoveredBrokers:
    """Addresses of the voters, as far as this node knows them."""
    leader = answer.leader
    return DiscoveredBrokers(
        cluster_id=answer.cluster_id,
        leader_id=None if leader.leader_id == NO_LEADER else leader.leader_id,
        leader_epoch=leader.leader_epoch,
        partition=partition,
        brokers=[
            DiscoveredBroker(
                id=heard.key.id,
                uuid=None if heard.key.uuid is None else uuid_text(heard.key.uuid),
                boot_timestamp_ms=None if heard.boot_timestamp_ms < 0 else heard.boot_timestamp_ms,
                host=heard.endpoint.host,
                port=heard.endpoint.port,
            )
            for heard in answer.brokers
        ],
    )


def snapshot_document(store: SnapshotStore, id: SnapshotId) -> SnapshotDescription:
    """A snapshot on the local disk."""
    return SnapshotDescription(
        end_offset=id.end_offset,
        epoch=id.epoch,
        size_bytes=store.size_bytes(id),
        timestamp_ms=store.timestamp_ms(id),
    )


def quorum_document(
    d: ReplicaDescription, now_ms: float, *, confirmed: bool, partition: int
) -> QuorumDescription:
    """The quorum. On a replica that does not lead the voters are known, their progress is not."""
    if d.voters_progress:
        voters = [_status(p, d, now_ms) for p in d.voters_progress]
    else:
        voters = [_unknown(voter) for voter in d.voters]
    leader_key: ReplicaKey | None = d.leader_key
    return QuorumDescription(
        cluster_id=d.cluster_id,
        leader_id=None if d.leader_id == NO_LEADER else d.leader_id,
        leader_uuid=uuid_text(leader_key.uuid) if leader_key and leader_key.uuid else None,
        leader_epoch=d.leader_epoch,
        high_watermark=d.high_watermark,
        log_end_offset=d.log_end_offset,
        voters=voters,
        observers=[_status(p, d, now_ms) for p in d.observers_progress],
        voters_position=voters_position(d),
        pending_change=d.pending_change,
        own_epoch_committed=d.own_epoch_committed,
        formed=d.formed,
        initial_voters=d.initial_voters,
        confirmed=confirmed,
        node_id=d.key.id,
        partition=partition,
        target_voters=target_document(d),
        plan=d.plan,
        recovered_epoch=d.recovered_epoch,
    )


def target_document(d: ReplicaDescription) -> list[TargetVoter] | None:
    """The target of an AlterQuorum that is under way; None without one."""
    if d.target_voters is None:
        return None
    return [
        TargetVoter(id=key.id, uuid=uuid_text(key.uuid) if key.uuid else None)
        for key in d.target_voters
    ]


def voters_position(d: ReplicaDescription) -> VotersPosition:
    """Position of the latest voters record."""
    return VotersPosition(
        offset=d.voters_position.offset,
        epoch=d.voters_position.epoch,
        committed=d.voters_committed,
    )


def voter_model(voter: Voter) -> VoterModel:
    """A voter without progress."""
    return VoterModel(
        id=voter.key.id, uuid=uuid_text(voter.key.uuid), endpoints=_endpoints(voter.endpoints)
    )


def _endpoints(endpoints: tuple[Endpoint, ...]) -> list[EndpointModel]:
    return [EndpointModel(name=e.name, host=e.host, port=e.port) for e in endpoints]


def _status(p: ReplicaProgress, d: ReplicaDescription, now_ms: float) -> ReplicaStatus:
    lag = d.log_end_offset - p.log_end_offset if p.log_end_offset >= 0 else d.log_end_offset
    return ReplicaStatus(
        id=p.key.id,
        uuid=uuid_text(p.key.uuid),
        endpoints=_endpoints(p.endpoints),
        log_end_offset=p.log_end_offset,
        lag=max(0, lag),
        last_fetch_age_ms=_age_ms(p.last_fetch_ms, now_ms),
        last_caught_up_age_ms=_age_ms(p.last_caught_up_ms, now_ms),
        fetching=p.fetching,
        caught_up=p.caught_up,
        stock=p.stock,
        witness=p.witness,
        went_back=_went_back(p, now_ms),
        damaged_from=p.damaged_from,
    )


def _went_back(p: ReplicaProgress, now_ms: float) -> WentBack | None:
    if p.went_back is None:
        return None
    return WentBack(
        acknowledged_offset=p.went_back.acknowledged_offset,
        offset=p.went_back.offset,
        age_ms=max(0, round(now_ms - p.went_back.at_ms)),
    )


def _unknown(voter: Voter) -> ReplicaStatus:
    return ReplicaStatus(
        id=voter.key.id,
        uuid=uuid_text(voter.key.uuid),
        endpoints=_endpoints(voter.endpoints),
        log_end_offset=-1,
        lag=-1,
        fetching=False,
        caught_up=False,
    )


def _age_ms(then_ms: float | None, now_ms: float) -> int | None:
    return None if then_ms is None else max(0, round(now_ms - then_ms))
