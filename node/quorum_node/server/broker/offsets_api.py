"""ListOffsets and OffsetForLeaderEpoch: offsets by time, ends of logs and ends of epochs.

Owns the meaning of Kafka's special timestamps. The log searches for other timestamps.
Source: the rules of a stock leader for ListOffsets 1 to 11; KIP-101, KIP-207 (an offset that is not known yet), KIP-320.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from quorum_node.broker.epoch_history import NO_EPOCH, EpochHistory
from quorum_node.broker.errors import BrokerError
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from quorum_node.protocol.offset_for_leader_epoch import (
    EpochEnd,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.isolation_levels import READ_COMMITTED, is_isolation_level
from quorum_node.server.broker.topic_lookup import May, anything, look_up
from quorum_node.server.broker.wire_errors import code_of
from quorum_node.server.listener.port import InboundRequest

_CONSUMER, _DEBUGGING = -1, -2
"""Replica ids. A debugging consumer gets offsets like a replica, and also from followers."""
_NONE_KNOWN = -1
_BEFORE_OFFSET_NOT_AVAILABLE = 5
_SPECIAL_SINCE = {
    EARLIEST_TIMESTAMP: 1,
    LATEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""First versions with the special timestamps. All others are not negative."""


@dataclass(frozen=True, slots=True)
class _Terms:
    """What a ListOffsets request says of all its partitions."""

    version: int
    is_replica: bool
    """Whether it gets offsets as a follower does: up to the end of the log."""
    only_leader: bool
    """Whether only the leader may answer."""
    is_committed: bool
    """Whether a consumer gets offsets up to the last stable offset only (READ_COMMITTED)."""
    is_valid: bool
    """Whether its isolation level exists."""


def _terms(body: ListOffsetsRequest, version: int) -> _Terms:
    return _Terms(
        version=version,
        is_replica=body.replica_id != _CONSUMER,
        only_leader=body.replica_id != _DEBUGGING,
        is_committed=body.isolation_level == READ_COMMITTED,
        is_valid=is_isolation_level(body.isolation_level),
    )


class OffsetsApi:
    """The handler of both APIs. It answers at once, or in pieces if there is much to look up."""

    def __init__(self, replicas: AssignedReplicas) -> None:
        self._replicas = replicas

    def list(self, inbound: InboundRequest, body: ListOffsetsRequest, may: May = anything) -> None:
        """Answer ListOffsets."""
        inbound.in_pieces(self._list(inbound, body, may))

    def _list(self, inbound: InboundRequest, body: ListOffsetsRequest, may: May) -> Iterator[None]:
        terms = _terms(body, inbound.request.version)
        counts: Counter[tuple[str, int]] = Counter()
        for topic in body.topics:
            yield
            for each in topic.partitions:
                counts[topic.name, each.partition_index] += 1
                yield
        topics = []
        for topic in body.topics:
            yield
            found = []
            for each in topic.partitions:
                is_repeated = counts[topic.name, each.partition_index] > 1
                one = self._list_one(topic.name, each, may, terms, is_repeated=is_repeated)
                found.append((yield from one))
                yield
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(found)))
        inbound.reply(ListOffsetsResponse(topics=tuple(topics)))

    def _list_one(
        self,
        name: str,
        asked: ListOffsetsPartition,
        may: May,
        terms: _Terms,
        *,
        is_repeated: bool,
    ) -> Generator[None, None, ListOffsetsPartitionResponse]:
        replica = self._leader(
            name,
            asked.partition_index,
            asked.current_leader_epoch,
            may,
            only_leader=terms.only_leader,
        )
        # These come before any other error but a missing right, also if there is no such topic.
        if replica != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            if not terms.is_valid:
                replica = ErrorCode.UNKNOWN_SERVER_ERROR
            elif is_repeated:
                # Each search reads the disk: repeated partitions in a small request could block the loop for minutes.
                replica = ErrorCode.INVALID_REQUEST
            elif _is_unknown(asked.timestamp, terms.version):
                replica = ErrorCode.UNSUPPORTED_VERSION
        found: tuple[int, int, int] | ErrorCode
        if isinstance(replica, ErrorCode):
            found = replica
        else:
            found = yield from self._offset(replica, asked.timestamp, terms)
        if isinstance(found, ErrorCode):
            is_old = terms.version < _BEFORE_OFFSET_NOT_AVAILABLE
            if found == ErrorCode.OFFSET_NOT_AVAILABLE and is_old:
                found = ErrorCode.LEADER_NOT_AVAILABLE
            return ListOffsetsPartitionResponse(
                partition_index=asked.partition_index, error_code=found
            )
        offset, timestamp, epoch = found
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index,
            error_code=ErrorCode.NONE,
            timestamp=timestamp,
            offset=offset,
            leader_epoch=epoch,
        )

    def _offset(
        self, replica: HostedReplica, timestamp: int, terms: _Terms
    ) -> Generator[None, None, tuple[int, int, int] | ErrorCode]:
        """(offset, timestamp in milliseconds since 1970, leader epoch), each -1 if there is none; or an error. Searches are done in pieces."""
        core = replica.core
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return core.start_offset, _NONE_KNOWN, _epoch_at(replica, core.start_offset)
        if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD):
            return _NONE_KNOWN, _NONE_KNOWN, NO_EPOCH
        unknown = BrokerError.NONE
        latest = core.end_offset if terms.is_replica else core.latest_offset()
        if isinstance(latest, BrokerError):
            # On a new leader the end is not known yet. What is committed already can be searched (KIP-207).
            if latest is not BrokerError.OFFSET_NOT_AVAILABLE or timestamp == LATEST_TIMESTAMP:
                return code_of(latest)
            unknown = latest
            latest = core.high_watermark
        if terms.is_committed and not terms.is_replica:
            latest = min(latest, replica.last_stable_offset)
        if timestamp == LATEST_TIMESTAMP:
            return latest, _NONE_KNOWN, core.leader_epoch
        if timestamp == MAX_TIMESTAMP:
            found = yield from replica.newest(latest)
        else:
            found = yield from replica.offset_at(timestamp, latest)
        if isinstance(found, BrokerError):
            return code_of(found)
        if found is None and unknown is not BrokerError.NONE:
            return code_of(unknown)
        if found is None:
            return _NONE_KNOWN, _NONE_KNOWN, NO_EPOCH
        return found.offset, found.timestamp_ms, _epoch_at(replica, found.offset)

    def _leader(
        self,
        name: str,
        partition_id: int,
        leader_epoch: int,
        may: May,
        *,
        only_leader: bool = True,
    ) -> HostedReplica | ErrorCode:
        """The local replica, if it leads in that epoch (-1: in any epoch); else an error. Without `only_leader`, it may be a follower."""
        found = look_up(self._replicas, None, name, partition_id, may)
        if isinstance(found, ErrorCode):
            return found
        replica = found.replica
        if replica is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if leader_epoch != NO_EPOCH and leader_epoch != replica.core.leader_epoch:
            is_older = leader_epoch < replica.core.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if is_older else ErrorCode.UNKNOWN_LEADER_EPOCH
        if only_leader and not replica.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return replica

    def epoch_ends(
        self, inbound: InboundRequest, body: OffsetForLeaderEpochRequest, may: May = anything
    ) -> None:
        """Answer OffsetForLeaderEpoch."""
        inbound.in_pieces(self._epoch_ends(inbound, body, may))

    def _epoch_ends(
        self, inbound: InboundRequest, body: OffsetForLeaderEpochRequest, may: May
    ) -> Iterator[None]:
        topics = []
        for topic in body.topics:
            yield
            found = []
            for each in topic.partitions:
                found.append(self._epoch_end(topic.topic, each, may))
                yield
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(found)))
        inbound.reply(OffsetForLeaderEpochResponse(topics=tuple(topics)))

    def _epoch_end(self, name: str, asked: OffsetForLeaderPartition, may: May) -> EpochEnd:
        replica = self._leader(name, asked.partition, asked.current_leader_epoch, may)
        if isinstance(replica, ErrorCode):
            return EpochEnd(error_code=replica, partition=asked.partition)
        core = replica.core
        end = EpochHistory(core.epoch_starts).end_of(asked.leader_epoch, core.end_offset)
        return EpochEnd(
            error_code=ErrorCode.NONE,
            partition=asked.partition,
            leader_epoch=NO_EPOCH if end is None else end.epoch,
            end_offset=_NONE_KNOWN if end is None else end.end_offset,
        )


def _is_unknown(timestamp: int, version: int) -> bool:
    """Whether this version has no such special timestamp."""
    return timestamp < 0 and version < _SPECIAL_SINCE.get(timestamp, version + 1)


def _epoch_at(replica: HostedReplica, offset: int) -> int:
    """The leader epoch of the record at `offset`, or of the next record at the end of the log."""
    starts = replica.core.epoch_starts
    index = bisect_right(starts, offset, key=lambda each: each[1]) - 1
    return starts[index][0] if index >= 0 else NO_EPOCH
