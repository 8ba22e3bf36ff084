"""FetchSnapshot: translates one partition between the core's messages and Kafka's (KIP-630; KIP-853)."""

from functools import partial
from operator import attrgetter
from typing import Any

from quorum_node.protocol import apis
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import LeaderIdAndEpoch
from quorum_node.protocol.fetch_snapshot import (
    NO_CHECKSUM,
    FetchSnapshotPartition,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartition,
    FetchSnapshotResponseTopic,
    FetchSnapshotTopic,
    SnapshotIdentity,
)
from quorum_node.raft import messages as raft
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId
from quorum_node.server.wire.errors import raft_error, wire_error
from quorum_node.server.wire.partitioned_rpc import Now, PartitionedRpc, Parts
from quorum_node.server.wire.partitions import METADATA_TOPIC, Answer, named_leader

MAX_PART_BYTES = 8 << 20
"""Maximum bytes of an answer with all its partitions, because it is kept in memory."""


def _asked(
    body: FetchSnapshotRequest, part: FetchSnapshotPartition, count: int
) -> raft.FetchSnapshotRequest:
    """The core's request for one of `count` partitions. Each partition gets an equal share of the bytes."""
    return raft.FetchSnapshotRequest(
        body.cluster_id,
        ReplicaKey(body.replica_id, part.replica_directory_id),
        part.current_leader_epoch,
        SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch),
        part.position,
        max(0, min(body.max_bytes, MAX_PART_BYTES)) // count,
    )


def _answer_topic(
    topic: FetchSnapshotTopic, partitions: tuple[Any, ...]
) -> FetchSnapshotResponseTopic:
    return FetchSnapshotResponseTopic(name=topic.name, partitions=partitions)


def _answer_part(
    topic: FetchSnapshotTopic, part: FetchSnapshotPartition, answer: Answer, now: Now
) -> FetchSnapshotResponsePartition:
    if not isinstance(answer, raft.FetchSnapshotResponse):
        code = answer if isinstance(answer, ErrorCode) else wire_error(answer.error)
        return FetchSnapshotResponsePartition(
            index=part.partition,
            error_code=code,
            snapshot_id=part.snapshot_id,
            size=0,
            position=0,
            unaligned_records=b"",
        )
    told, leader = answer.snapshot_id, answer.leader
    return FetchSnapshotResponsePartition(
        index=part.partition,
        error_code=wire_error(answer.error),
        snapshot_id=SnapshotIdentity(end_offset=told.end_offset, epoch=told.epoch),
        current_leader=LeaderIdAndEpoch(
            leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
        ),
        size=answer.size_bytes,
        position=answer.position,
        unaligned_records=answer.data,
        checksum=NO_CHECKSUM if answer.checksum is None else answer.checksum,
    )


def _request_part(number: int, request: raft.FetchSnapshotRequest) -> FetchSnapshotPartition:
    wanted = request.snapshot_id
    return FetchSnapshotPartition(
        partition=number,
        current_leader_epoch=request.current_leader_epoch,
        snapshot_id=SnapshotIdentity(end_offset=wanted.end_offset, epoch=wanted.epoch),
        position=request.position,
        replica_directory_id=request.replica.uuid,
    )


def _request(parts: Parts, partitions: tuple[Any, ...], version: int) -> FetchSnapshotRequest:
    first: raft.FetchSnapshotRequest = parts[0][1]
    return FetchSnapshotRequest(
        cluster_id=first.cluster_id,
        replica_id=first.replica.id,
        max_bytes=first.max_bytes,
        topics=(FetchSnapshotTopic(name=METADATA_TOPIC, partitions=partitions),),
    )


def _answer_in(
    body: FetchSnapshotResponse, part: FetchSnapshotResponsePartition
) -> raft.FetchSnapshotResponse:
    leader = part.current_leader
    return raft.FetchSnapshotResponse(
        raft_error(part.error_code),
        named_leader(leader.leader_id, leader.leader_epoch, body.node_endpoints),
        SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch),
        part.size,
        part.position,
        bytes(part.unaligned_records),
        None if part.checksum == NO_CHECKSUM else part.checksum,
    )


# Requests of several partitions never share a message, because that would only make the chunks smaller.
FETCH_SNAPSHOT = PartitionedRpc(
    apis.FETCH_SNAPSHOT,
    _asked,
    _answer_topic,
    _answer_part,
    core_request=raft.FetchSnapshotRequest,
    core_answer=partial(raft.FetchSnapshotResponse, snapshot_id=NO_SNAPSHOT),
    request=_request,
    request_part=_request_part,
    answer_in=_answer_in,
    topic_name=attrgetter("name"),
    partition=attrgetter("partition"),
    answered_partition=attrgetter("index"),
    is_metadata=lambda topic: topic.name == METADATA_TOPIC,
)
