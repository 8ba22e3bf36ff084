"""Fetch: the core's messages and Kafka's, both ways, any number of partitions in one message."""

from collections.abc import Sequence
from uuid import UUID

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
from quorum_node.records.identity import Endpoint, replica_key
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.wire.errors import draft_field, raft_error, wire_error
from quorum_node.server.wire.partitions import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    NO_LEADER,
    UNKNOWN_TOPIC,
    Answer,
    PartitionKey,
    Split,
    leader_endpoints,
    missing_answer,
    top_level_error,
)

MAX_ANSWER_BYTES = 8 << 20
"""Whatever a fetcher asks for: an answer, all its partitions together, is held in memory."""
MAX_WAIT_MS = 60_000
TOPIC_BY_ID_SINCE = 13


def split_fetch(body: FetchRequest) -> Split:
    """The fetches of a request, one per partition. Each gets an equal share of the bytes."""
    fetcher = body.fetcher_id
    wait_ms = min(max(body.max_wait_ms, 0), MAX_WAIT_MS)
    share_bytes = min(body.max_bytes, MAX_ANSWER_BYTES)
    if len(body.topics) != 1 or len(body.topics[0].partitions) != 1:
        share_bytes //= max(1, sum(len(topic.partitions) for topic in body.topics))
    found: Split = []
    for topic in body.topics:
        name = topic.topic
        if topic.topic_id is not None:
            name = METADATA_TOPIC if topic.topic_id == METADATA_TOPIC_ID else UNKNOWN_TOPIC
        for part in topic.partitions:
            request = _fetch(body.cluster_id, fetcher, wait_ms, share_bytes, part)
            found.append((PartitionKey(name, part.partition), request))
    return found


def _fetch(
    cluster_id: str | None, fetcher: int, wait_ms: int, share_bytes: int, part: FetchPartition
) -> raft.FetchRequest:
    high_watermark = part.high_watermark
    # Kafka's own Raft client leaves the limit of the partition at 0 and means none.
    limit_bytes = part.partition_max_bytes
    return raft.FetchRequest(
        cluster_id,
        replica_key(fetcher, part.replica_directory_id),
        part.current_leader_epoch,
        part.fetch_offset,
        part.last_fetched_epoch,
        wait_ms,
        max(0, min(share_bytes, limit_bytes) if limit_bytes > 0 else share_bytes),
        -1 if high_watermark == HIGH_WATERMARK_UNSUPPORTED else high_watermark,
        part.answer,
        part.witness,
        tuple([Endpoint(each.name, each.host, each.port) for each in part.listeners]),
        part.corrupt,
        part.recovered_epoch,
    )


def join_fetch(body: FetchRequest, answers: Sequence[Answer]) -> FetchResponse:
    """The answer to a Fetch; `answers` in the order of `split_fetch`."""
    remaining = iter(answers)
    topics = [
        FetchResponseTopic(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=tuple(
                [
                    _partition(part.partition, next(remaining), topic.topic_id)
                    for part in topic.partitions
                ]
            ),
        )
        for topic in body.topics
    ]
    endpoints = [
        FetchNodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port)
        for leader_id, endpoint in leader_endpoints(answers)
    ]
    return FetchResponse(
        error_code=top_level_error(answers),
        responses=tuple(topics),
        node_endpoints=tuple(endpoints),
    )


def _partition(index: int, answer: Answer, topic_id: UUID | None) -> FetchResponsePartition:
    if not isinstance(answer, raft.FetchResponse):
        code = answer if isinstance(answer, ErrorCode) else wire_error(answer.error)
        if topic_id not in (None, METADATA_TOPIC_ID):
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
        # The draft's OFFSET_OUT_OF_RANGE; shipped Kafka says NONE and names the diverging epoch.
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


def fetch_request(parts: Sequence[tuple[int, raft.FetchRequest]], version: int) -> FetchRequest:
    """One Kafka request for the fetches of several partitions."""
    by_id = version >= TOPIC_BY_ID_SINCE
    first = parts[0][1]
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
                partitions=tuple([_asked(number, request) for number, request in parts]),
            ),
        ),
    )


def _asked(number: int, request: raft.FetchRequest) -> FetchPartition:
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


def fetch_answers(body: FetchResponse, numbers: Sequence[int]) -> list[raft.InboundResponse]:
    """The answers for partitions `numbers`, in this order."""
    found = {}
    for topic in body.responses:
        if topic.topic == METADATA_TOPIC or topic.topic_id == METADATA_TOPIC_ID:
            for part in topic.partitions:
                found[part.partition_index] = part
    answers: list[raft.InboundResponse] = []
    for number in numbers:
        wanted = found.get(number)
        if body.error_code or wanted is None:
            answers.append(raft.FetchResponse(missing_answer(body.error_code), NO_LEADER))
        else:
            answers.append(_answer(wanted, body.node_endpoints))
    return answers


def _answer(
    part: FetchResponsePartition, endpoints: Sequence[FetchNodeEndpoint]
) -> raft.FetchResponse:
    leader_id = part.current_leader.leader_id
    endpoint = None
    for each in endpoints:
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
