"""FetchSnapshot: the core's messages and Kafka's, both ways (KIP-630; KIP-853)."""

from collections.abc import Sequence

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
from quorum_node.server.wire.partitions import (
    METADATA_TOPIC,
    NO_LEADER,
    Answer,
    PartitionKey,
    Split,
    missing_answer,
    named_leader,
    node_endpoints,
    top_level_error,
)

MAX_PART_BYTES = 8 << 20
"""Whatever a fetcher asks for: an answer, all its partitions together, is held in memory."""


def split_fetch_snapshot(body: FetchSnapshotRequest) -> Split:
    """One request per partition. Each gets an equal share of the bytes."""
    count = sum(len(topic.partitions) for topic in body.topics)
    share_bytes = max(0, min(body.max_bytes, MAX_PART_BYTES)) // max(count, 1)
    return [
        (PartitionKey(topic.name, part.partition), _request(body, part, share_bytes))
        for topic in body.topics
        for part in topic.partitions
    ]


def _request(
    body: FetchSnapshotRequest, part: FetchSnapshotPartition, share_bytes: int
) -> raft.FetchSnapshotRequest:
    return raft.FetchSnapshotRequest(
        body.cluster_id,
        ReplicaKey(body.replica_id, part.replica_directory_id),
        part.current_leader_epoch,
        SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch),
        part.position,
        share_bytes,
    )


def join_fetch_snapshot(
    body: FetchSnapshotRequest, answers: Sequence[Answer]
) -> FetchSnapshotResponse:
    """The answer; `answers` in the order of `split_fetch_snapshot`."""
    remaining = iter(answers)
    topics = tuple(
        FetchSnapshotResponseTopic(
            name=topic.name,
            partitions=tuple(_partition(part, next(remaining)) for part in topic.partitions),
        )
        for topic in body.topics
    )
    return FetchSnapshotResponse(
        error_code=top_level_error(answers), topics=topics, node_endpoints=node_endpoints(answers)
    )


def _partition(part: FetchSnapshotPartition, answer: Answer) -> FetchSnapshotResponsePartition:
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


def fetch_snapshot_request(number: int, request: raft.FetchSnapshotRequest) -> FetchSnapshotRequest:
    """The Kafka request of one partition; parts of several in one answer would only be smaller."""
    wanted = request.snapshot_id
    partition = FetchSnapshotPartition(
        partition=number,
        current_leader_epoch=request.current_leader_epoch,
        snapshot_id=SnapshotIdentity(end_offset=wanted.end_offset, epoch=wanted.epoch),
        position=request.position,
        replica_directory_id=request.replica.uuid,
    )
    return FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.max_bytes,
        topics=(FetchSnapshotTopic(name=METADATA_TOPIC, partitions=(partition,)),),
    )


def fetch_snapshot_answer(body: FetchSnapshotResponse, number: int) -> raft.FetchSnapshotResponse:
    """The answer for the partition that was asked for."""
    for topic in body.topics:
        for part in topic.partitions:
            if topic.name == METADATA_TOPIC and part.index == number and not body.error_code:
                return _answer(body, part)
    return raft.FetchSnapshotResponse(missing_answer(body.error_code), NO_LEADER, NO_SNAPSHOT)


def _answer(
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
