"""Kafka requests that others send: into the core's messages, and the core's answers back.

Kafka's core RPCs are batches over topics and partitions; the core speaks for one partition. `split`
takes a request apart, `join` puts the answers together in the same order, so that a process can
host several quorums (K595-31). Knows no connections and no replicas.
"""

from typing import NamedTuple
from uuid import UUID

from quorum_node.protocol import elections as el
from quorum_node.protocol.describe import DescribeQuorumRequest
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import (
    HIGH_WATERMARK_UNSUPPORTED,
    EpochEndOffset,
    FetchNodeEndpoint,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
    LeaderIdAndEpoch,
)
from quorum_node.protocol.schema import Message
from quorum_node.protocol.voters import (
    AddRaftVoterRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    VoterListener,
)
from quorum_node.raft import messages as raft
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.server.wire_errors import wire_error

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)
_MAX_ANSWER_BYTES = 8 << 20
"""Whatever a fetcher asks for: an answer is held in memory."""
_NO_WAIT_LIMIT_MS = 60_000


class PartitionKey(NamedTuple):
    """A quorum partition."""

    topic: str
    number: int


METADATA_PARTITION = PartitionKey(METADATA_TOPIC, 0)
UNKNOWN_TOPIC = ""
DEFAULT_VOTER_TIMEOUT_MS = 30_000

Split = list[tuple[PartitionKey, raft.Request]]
Answer = raft.Response | ErrorCode
"""An ErrorCode where no replica was asked: the partition is not hosted here."""


def split(body: Message) -> Split:
    """The core's requests in a Kafka request, in the order of its partitions."""
    match body:
        case FetchRequest():
            return _split_fetch(body)
        case el.VoteRequest():
            return _split_vote(body)
        case el.BeginQuorumEpochRequest():
            return _split_begin(body)
        case el.EndQuorumEpochRequest():
            return _split_end(body)
        case DescribeQuorumRequest():
            return [
                (PartitionKey(topic.topic_name, part.partition_index), raft.DescribeQuorumRequest())
                for topic in body.topics
                for part in topic.partitions
            ]
        case AddRaftVoterRequest() | RemoveRaftVoterRequest() | UpdateRaftVoterRequest():
            return [(METADATA_PARTITION, _voter_change(body))]
    raise AssertionError(f"no raft request: {type(body).__name__}")


def _split_fetch(body: FetchRequest) -> Split:
    fetcher = body.fetcher_id
    wait_ms = min(max(body.max_wait_ms, 0), _NO_WAIT_LIMIT_MS)
    found: Split = []
    for topic in body.topics:
        name = topic.topic
        if topic.topic_id is not None:
            name = METADATA_TOPIC if topic.topic_id == METADATA_TOPIC_ID else UNKNOWN_TOPIC
        for part in topic.partitions:
            request = _fetch(body.cluster_id, fetcher, wait_ms, body.max_bytes, part)
            found.append((PartitionKey(name, part.partition), request))
    return found


def _fetch(
    cluster_id: str | None, fetcher: int, wait_ms: int, max_bytes: int, part: FetchPartition
) -> raft.FetchRequest:
    high_watermark = part.high_watermark
    return raft.FetchRequest(
        cluster_id,
        ReplicaKey(fetcher, part.replica_directory_id),
        part.current_leader_epoch,
        part.fetch_offset,
        part.last_fetched_epoch,
        wait_ms,
        _answer_bytes(max_bytes, part.partition_max_bytes),
        -1 if high_watermark == HIGH_WATERMARK_UNSUPPORTED else high_watermark,
        part.answer,
    )


def _answer_bytes(max_bytes: int, partition_max_bytes: int) -> int:
    # Kafka's own Raft client leaves the limit of the partition at 0 and means none.
    wanted = min(max_bytes, partition_max_bytes) if partition_max_bytes > 0 else max_bytes
    return max(0, min(wanted, _MAX_ANSWER_BYTES))


def _split_vote(body: el.VoteRequest) -> Split:
    return [
        (
            PartitionKey(topic.topic_name, part.partition_index),
            raft.VoteRequest(
                cluster_id=body.cluster_id,
                candidate=ReplicaKey(part.replica_id, part.replica_directory_id),
                candidate_epoch=part.replica_epoch,
                last_epoch=part.last_offset_epoch,
                last_epoch_end_offset=part.last_offset,
                voter=_addressee(body.voter_id, part.voter_directory_id),
                pre_vote=part.pre_vote,
            ),
        )
        for topic in body.topics
        for part in topic.partitions
    ]


def _split_begin(body: el.BeginQuorumEpochRequest) -> Split:
    endpoint = _leader_endpoint(body.leader_endpoints)
    return [
        (
            PartitionKey(topic.topic_name, part.partition_index),
            raft.BeginQuorumEpochRequest(
                body.cluster_id,
                part.leader_id,
                part.leader_epoch,
                _addressee(body.voter_id, part.voter_directory_id),
                endpoint,
            ),
        )
        for topic in body.topics
        for part in topic.partitions
    ]


def _split_end(body: el.EndQuorumEpochRequest) -> Split:
    endpoint = _leader_endpoint(body.leader_endpoints)
    return [
        (
            PartitionKey(topic.topic_name, part.partition_index),
            raft.EndQuorumEpochRequest(
                body.cluster_id, part.leader_id, part.leader_epoch, _successors(part), endpoint
            ),
        )
        for topic in body.topics
        for part in topic.partitions
    ]


def _successors(part: el.EndQuorumEpochRequestPartition) -> tuple[ReplicaKey, ...]:
    if part.preferred_candidates:
        return tuple(
            ReplicaKey(c.candidate_id, c.candidate_directory_id) for c in part.preferred_candidates
        )
    return tuple(ReplicaKey(successor) for successor in part.preferred_successors)


def _addressee(voter_id: int, directory_id: UUID | None) -> ReplicaKey | None:
    return None if voter_id < 0 else ReplicaKey(voter_id, directory_id)


def _leader_endpoint(endpoints: tuple[el.LeaderEndpoint, ...]) -> Endpoint | None:
    named = [e for e in endpoints if e.name.upper() == CONTROLLER] or list(endpoints)
    return Endpoint(named[0].name, named[0].host, named[0].port) if named else None


def _voter_change(
    body: AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest,
) -> raft.Request:
    key = ReplicaKey(body.voter_id, body.voter_directory_id)
    if isinstance(body, UpdateRaftVoterRequest):
        feature = body.kraft_version_feature
        return raft.UpdateVoterRequest(
            cluster_id=body.cluster_id,
            voter=key,
            endpoints=_endpoints(body.listeners),
            timeout_ms=DEFAULT_VOTER_TIMEOUT_MS,
            current_leader_epoch=body.current_leader_epoch,
            min_kraft_version=feature.min_supported_version,
            max_kraft_version=feature.max_supported_version,
        )
    expected = None
    if body.expected_offset >= 0:
        expected = raft.VotersPosition(body.expected_offset, body.expected_epoch)
    if isinstance(body, RemoveRaftVoterRequest):
        return raft.RemoveVoterRequest(body.cluster_id, key, DEFAULT_VOTER_TIMEOUT_MS, expected)
    return raft.AddVoterRequest(
        cluster_id=body.cluster_id,
        voter=key,
        endpoints=_endpoints(body.listeners),
        timeout_ms=max(body.timeout_ms, 0),
        expected=expected,
        ack_when_committed=body.ack_when_committed,
    )


def _endpoints(listeners: tuple[VoterListener, ...]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(entry.name, entry.host, entry.port) for entry in listeners)


def join_fetch(body: FetchRequest, answers: list[Answer]) -> FetchResponse:
    """The answer to a Fetch; `answers` in the order of `split`."""
    remaining = iter(answers)
    topics = tuple(
        FetchResponseTopic(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=tuple(
                _fetch_partition(part.partition, next(remaining), topic.topic_id is not None)
                for part in topic.partitions
            ),
        )
        for topic in body.topics
    )
    endpoints = tuple(
        FetchNodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port)
        for leader_id, endpoint in leader_endpoints(answers)
    )
    return FetchResponse(
        error_code=top_level_error(answers), responses=topics, node_endpoints=endpoints
    )


def _fetch_partition(index: int, answer: Answer, by_id: bool) -> FetchResponsePartition:
    if not isinstance(answer, raft.FetchResponse):
        code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return FetchResponsePartition(partition_index=index, error_code=code, high_watermark=-1)
    leader = LeaderIdAndEpoch(
        leader_id=answer.leader.leader_id, leader_epoch=answer.leader.leader_epoch
    )
    diverging = answer.diverging
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
        )
    return FetchResponsePartition(
        partition_index=index,
        error_code=wire_error(answer.error),
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        current_leader=leader,
        records=answer.records,
        answer=answer.answer,
    )


def join_epoch(
    body: el.VoteRequest | el.BeginQuorumEpochRequest | el.EndQuorumEpochRequest,
    answers: list[Answer],
) -> Message:
    """The answer to Vote, BeginQuorumEpoch or EndQuorumEpoch; `answers` in the order of `split`."""
    remaining = iter(answers)
    endpoints = tuple(
        el.NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port)
        for leader_id, endpoint in leader_endpoints(answers)
    )
    error = top_level_error(answers)
    if isinstance(body, el.VoteRequest):
        votes = tuple(
            el.VoteResponseTopic(
                topic_name=topic.topic_name,
                partitions=tuple(
                    _vote_partition(part.partition_index, next(remaining))
                    for part in topic.partitions
                ),
            )
            for topic in body.topics
        )
        return el.VoteResponse(error_code=error, topics=votes, node_endpoints=endpoints)
    topics = tuple(
        el.EpochResponseTopic(
            topic_name=topic.topic_name,
            partitions=tuple(
                _epoch_partition(part.partition_index, next(remaining)) for part in topic.partitions
            ),
        )
        for topic in body.topics
    )
    if isinstance(body, el.BeginQuorumEpochRequest):
        return el.BeginQuorumEpochResponse(
            error_code=error, topics=topics, node_endpoints=endpoints
        )
    return el.EndQuorumEpochResponse(error_code=error, topics=topics, node_endpoints=endpoints)


def _vote_partition(index: int, answer: Answer) -> el.VoteResponsePartition:
    error, leader = _error_and_leader(answer)
    return el.VoteResponsePartition(
        partition_index=index,
        error_code=error,
        leader_id=leader.leader_id,
        leader_epoch=leader.leader_epoch,
        vote_granted=isinstance(answer, raft.VoteResponse) and answer.vote_granted,
    )


def _epoch_partition(index: int, answer: Answer) -> el.EpochResponsePartition:
    error, leader = _error_and_leader(answer)
    return el.EpochResponsePartition(
        partition_index=index,
        error_code=error,
        leader_id=leader.leader_id,
        leader_epoch=leader.leader_epoch,
    )


_NO_LEADER = raft.CurrentLeader(raft.NO_LEADER, -1)


def _error_and_leader(answer: Answer) -> tuple[ErrorCode, raft.CurrentLeader]:
    if isinstance(answer, ErrorCode):
        return answer, _NO_LEADER
    return wire_error(answer.error), answer.leader


def top_level_error(answers: list[Answer]) -> ErrorCode:
    """A wrong cluster id concerns the whole request; everything else its partition."""
    for answer in answers:
        if not isinstance(answer, ErrorCode) and answer.error is RaftError.INVALID_CLUSTER_ID:
            return ErrorCode.INCONSISTENT_CLUSTER_ID
    return ErrorCode.NONE


def leader_endpoints(answers: list[Answer]) -> list[tuple[int, Endpoint]]:
    """(leader id, endpoint) of every leader that the answers name, each once."""
    found: dict[int, Endpoint] = {}
    for answer in answers:
        if not isinstance(answer, ErrorCode):
            leader = answer.leader
            if leader.leader_id >= 0 and leader.endpoint is not None:
                found[leader.leader_id] = leader.endpoint
    return list(found.items())
