"""Fetch: translates one partition between the core's messages and Kafka's."""

from collections.abc import Hashable, Sequence
from operator import attrgetter
from typing import Any

from quorum_node.protocol import apis
from quorum_node.protocol.api import Api
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import (
    HIGH_WATERMARK_UNSUPPORTED,
    NO_KEEPING_UP,
    EpochEndOffset,
    FetchNodeEndpoint,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
    FetchTopic,
    KeepingUp,
    LeaderIdAndEpoch,
    ReplicaListener,
    ReplicaState,
)
from quorum_node.protocol.fetch import SnapshotId as WireSnapshotId
from quorum_node.raft import messages as raft
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.errors import RaftError
from quorum_node.records.dialable import why_unusable
from quorum_node.records.identity import Endpoint, replica_key
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.wire.errors import draft_field, raft_error, wire_error
from quorum_node.server.wire.partitioned_rpc import Now, PartitionedRpc, Parts
from quorum_node.server.wire.partitions import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    UNKNOWN_TOPIC,
    Answer,
    leader_endpoints,
    top_level_error,
)

MAX_ANSWER_BYTES = 8 << 20
"""Maximum bytes of an answer with all its partitions, because it is kept in memory."""
MAX_WAIT_MS = 60_000
TOPIC_BY_ID_SINCE = 13


def _asked(body: FetchRequest, part: FetchPartition, count: int) -> raft.FetchRequest:
    """The core's request for one of `count` partitions. Each partition gets an equal share of the bytes."""
    share_bytes = min(body.max_bytes, MAX_ANSWER_BYTES)
    if count > 1:
        share_bytes //= count
    high_watermark = part.high_watermark
    # Kafka's own Raft client sets the limit of the partition to 0, meaning no limit.
    limit_bytes = part.partition_max_bytes
    return raft.FetchRequest(
        body.cluster_id,
        replica_key(body.fetcher_id, part.replica_directory_id),
        part.current_leader_epoch,
        part.fetch_offset,
        part.last_fetched_epoch,
        min(max(body.max_wait_ms, 0), MAX_WAIT_MS),
        max(0, min(share_bytes, limit_bytes) if limit_bytes > 0 else share_bytes),
        -1 if high_watermark == HIGH_WATERMARK_UNSUPPORTED else high_watermark,
        part.answer,
        part.witness,
        _listeners(part),
        part.corrupt,
        part.recovered_epoch,
    )


def _listeners(part: FetchPartition) -> tuple[Endpoint, ...]:
    """Only those that a voter can have: a parked request keeps them."""
    if not part.listeners:
        return ()
    found = tuple([Endpoint(each.name, each.host, each.port) for each in part.listeners])
    return found if why_unusable(found) is None else ()


def without_unused_fields(body: FetchRequest) -> FetchRequest:
    """A request with the same answer. It is kept while the original is parked, whose other fields have any size, unknown ones included."""
    topics = tuple(
        FetchTopic(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=tuple(
                FetchPartition(
                    partition=part.partition, fetch_offset=part.fetch_offset, partition_max_bytes=0
                )
                for part in topic.partitions
            ),
        )
        for topic in body.topics
    )
    return FetchRequest(
        replica_id=body.fetcher_id,
        replica_state=ReplicaState(replica_id=body.fetcher_id),
        max_wait_ms=body.max_wait_ms,
        min_bytes=body.min_bytes,
        topics=topics,
    )


def _topic_name(topic: FetchTopic) -> str:
    if topic.topic_id is None:
        return topic.topic
    return METADATA_TOPIC if topic.topic_id == METADATA_TOPIC_ID else UNKNOWN_TOPIC


def _answer(
    api: Api, body: FetchRequest, topics: tuple[Any, ...], answers: Sequence[Answer]
) -> FetchResponse:
    endpoints = [
        FetchNodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port)
        for leader_id, endpoint in leader_endpoints(answers)
    ]
    return FetchResponse(
        error_code=top_level_error(answers), responses=topics, node_endpoints=tuple(endpoints)
    )


def _answer_topic(topic: FetchTopic, partitions: tuple[Any, ...]) -> FetchResponseTopic:
    return FetchResponseTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions)


def _answer_part(
    topic: FetchTopic, part: FetchPartition, answer: Answer, now: Now
) -> FetchResponsePartition:
    index = part.partition
    if not isinstance(answer, raft.FetchResponse):
        code = answer if isinstance(answer, ErrorCode) else wire_error(answer.error)
        if topic.topic_id not in (None, METADATA_TOPIC_ID):
            code = ErrorCode.UNKNOWN_TOPIC_ID
        return FetchResponsePartition(partition_index=index, error_code=code, high_watermark=-1)
    leader = LeaderIdAndEpoch(
        leader_id=answer.leader.leader_id, leader_epoch=answer.leader.leader_epoch
    )
    wanted, diverging, told = answer.snapshot_id, answer.diverging, answer.keeping_up
    if wanted is not None:
        return FetchResponsePartition(
            partition_index=index,
            error_code=0,
            high_watermark=answer.high_watermark,
            log_start_offset=answer.log_start_offset,
            snapshot_id=WireSnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch),
            current_leader=leader,
            answer=answer.answer,
            recovered_epoch=answer.leader.recovered_epoch,
        )
    if diverging is not None:
        # The draft sends OFFSET_OUT_OF_RANGE here; shipped Kafka sends NONE with the diverging epoch.
        return FetchResponsePartition(
            partition_index=index,
            error_code=0,
            high_watermark=answer.high_watermark,
            log_start_offset=answer.log_start_offset,
            diverging_epoch=EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset),
            current_leader=leader,
            answer=answer.answer,
            recovered_epoch=answer.leader.recovered_epoch,
        )
    return FetchResponsePartition(
        partition_index=index,
        error_code=wire_error(answer.error),
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        current_leader=leader,
        records=answer.records,
        answer=answer.answer,
        keeping_up=NO_KEEPING_UP if told is None else _told(told),
        draft_error=draft_field(answer.error),
        recovered_epoch=answer.leader.recovered_epoch,
    )


def _told(told: raft.KeepingUp) -> KeepingUp:
    return KeepingUp(caught_up_age_ms=told.caught_up_age_ms, dirty_offset=told.dirty_offset)


def _request(parts: Parts, partitions: tuple[Any, ...], version: int) -> FetchRequest:
    by_id = version >= TOPIC_BY_ID_SINCE
    first: raft.FetchRequest = parts[0][1]
    replica_id = first.replica.id
    return FetchRequest(
        cluster_id=first.cluster_id,
        replica_id=replica_id,
        replica_state=ReplicaState(replica_id=replica_id),
        max_wait_ms=first.max_wait_ms,
        min_bytes=0,
        max_bytes=max([request.max_bytes for _, request in parts]),
        topics=(
            FetchTopic(
                topic="" if by_id else METADATA_TOPIC,
                topic_id=METADATA_TOPIC_ID if by_id else None,
                partitions=partitions,
            ),
        ),
    )


def _request_part(number: int, request: raft.FetchRequest) -> FetchPartition:
    return FetchPartition(
        partition=number,
        current_leader_epoch=request.current_leader_epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=request.max_bytes,
        replica_directory_id=request.replica.uuid,
        high_watermark=request.high_watermark,
        answer=request.answer,
        witness=request.witness,
        listeners=tuple(
            [ReplicaListener(name=e.name, host=e.host, port=e.port) for e in request.endpoints]
        ),
        corrupt=request.corrupt,
        recovered_epoch=request.recovered_epoch,
    )


def _is_metadata(topic: FetchResponseTopic) -> bool:
    return topic.topic == METADATA_TOPIC or topic.topic_id == METADATA_TOPIC_ID


def _answer_in(body: FetchResponse, part: FetchResponsePartition) -> raft.FetchResponse:
    leader_id = part.current_leader.leader_id
    endpoint = None
    for each in body.node_endpoints:
        if each.node_id == leader_id:
            endpoint = Endpoint(CONTROLLER, each.host, each.port)
            break
    error = raft_error(part.error_code, part.draft_error)
    diverging, snapshot_id = None, None
    if part.snapshot_id.end_offset >= 0:
        snapshot_id = SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch)
        error = RaftError.OFFSET_OUT_OF_RANGE
    if part.diverging_epoch.end_offset >= 0:
        diverging = raft.DivergingEpoch(part.diverging_epoch.epoch, part.diverging_epoch.end_offset)
        error = RaftError.OFFSET_OUT_OF_RANGE
    told = part.keeping_up
    return raft.FetchResponse(
        error,
        raft.CurrentLeader(
            leader_id, part.current_leader.leader_epoch, endpoint, part.recovered_epoch
        ),
        part.high_watermark,
        part.log_start_offset,
        diverging,
        None,
        bytes(part.records) if part.records else b"",
        part.answer,
        snapshot_id,
        raft.KeepingUp(told.caught_up_age_ms, told.dirty_offset)
        if told.caught_up_age_ms >= 0
        else None,
    )


def _shared_fields(request: raft.FetchRequest) -> Hashable:
    return "fetch", request.cluster_id, request.replica.id, request.max_wait_ms


FETCH = PartitionedRpc(
    apis.FETCH,
    _asked,
    _answer_topic,
    _answer_part,
    _answer,
    core_request=raft.FetchRequest,
    core_answer=raft.FetchResponse,
    request=_request,
    request_part=_request_part,
    answer_in=_answer_in,
    shared_fields=_shared_fields,
    topic_name=_topic_name,
    partition=attrgetter("partition"),
    answered_topics=attrgetter("responses"),
    is_metadata=_is_metadata,
)
