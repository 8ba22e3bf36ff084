"""OffsetCommit, OffsetFetch and OffsetDelete: translated between the wire and the group's coordinator.

Owns the translation of topic names and ids, and the differences between versions. Does not validate offsets.
Source: the rules of a stock broker for OffsetCommit 2 to 10, OffsetFetch 1 to 10 and OffsetDelete 0; KIP-447, KIP-709.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, TypeVar
from uuid import UUID

from quorum_node.controller.authorization import UNRESTRICTED, AclOperation, AclResource, Rights
from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.requests import (
    CommitOffsets,
    Committed,
    DeleteOffsets,
    TopicPartition,
)
from quorum_node.image.topics import Topic, TopicsImage
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.offset_commit import (
    CommittedPartition,
    OffsetCommitRequest,
)
from quorum_node.protocol.offset_delete import (
    OffsetDeleteRequest,
)
from quorum_node.protocol.offset_fetch import (
    FetchedGroup,
    FetchedGroupResponse,
    FetchedPartitionResponse,
    FetchedTopic,
    FetchedTopicResponse,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopicResponse,
)
from quorum_node.records.group_records import NO_TIME
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.group_coordinators import GroupCoordinators
from quorum_node.server.broker.group_errors import group_code
from quorum_node.server.broker.group_offset_outcomes import Deleted, Stored
from quorum_node.server.broker.topic_lookup import May, on_topics
from quorum_node.server.listener.port import InboundRequest
from quorum_node.storage.broker.time_of_day import time_of_day_ms

_NO_OFFSET = -1
_NO_EPOCH = -1
_TOPIC_IDS_SINCE = 10
_MANY_GROUPS_SINCE = 8
_MISSING_SINCE = 9
"""First version of OffsetCommit with GROUP_ID_NOT_FOUND."""
_ONE_ERROR_SINCE = 2
_NO_RETENTION = -1
_AT_ONCE = 5_000
"""Offsets that are committed or deleted in one batch: all or none of them, also if the broker crashes. A stock broker makes one batch
of all, which must not be larger than max.message.bytes. A step of more would hold the loop.
"""
_END_OF_TIME_MS = (1 << 63) - 1
"""The largest timestamp that a record can contain."""


_Asked = tuple[int, CommittedPartition]
"""The index of a topic in the request, and one of its partitions."""


class _Fetched(NamedTuple):
    """The answer for one partition."""

    partition: int
    error: ErrorCode
    offset: int = _NO_OFFSET
    leader_epoch: int = _NO_EPOCH
    metadata: str = ""


_Answered = TypeVar("_Answered", FetchedPartitionResponse, OffsetFetchPartitionResponse)


class GroupOffsetsApi:
    """The handler of these requests from group members, from consumers that assign partitions themselves, and from administrators."""

    def __init__(self, replicas: AssignedReplicas, coordinators: GroupCoordinators) -> None:
        self._replicas = replicas
        self._coordinators = coordinators

    @property
    def _topics(self) -> TopicsImage:
        return self._replicas.image.topics

    # -- OffsetCommit

    def commit(
        self, inbound: InboundRequest, body: OffsetCommitRequest, rights: Rights = UNRESTRICTED
    ) -> None:
        """Answer OffsetCommit once the offsets are stored. Each topic needs READ."""
        inbound.in_pieces(self._commit(inbound, body, on_topics(rights, AclOperation.READ)))

    def _commit(
        self, inbound: InboundRequest, body: OffsetCommitRequest, may: May
    ) -> Iterator[None]:
        collected, version = Stored(inbound, body), inbound.request.version
        part: list[_Asked] = []
        for number, topic in enumerate(body.topics):
            yield
            for each in topic.partitions:
                part.append((number, each))
                if len(part) == _AT_ONCE:
                    yield from self._store(body, part, version, may, collected)
                    part = []
        yield from self._store(body, part, version, may, collected)
        collected.end()

    def _store(
        self,
        body: OffsetCommitRequest,
        part: Iterable[_Asked],
        version: int,
        may: May,
        collected: Stored,
    ) -> Iterator[None]:
        """Commit a part of the offsets. The parts are stored in their order, also if one of them fails."""
        by_id = version >= _TOPIC_IDS_SINCE
        topics: dict[int, Topic | ErrorCode] = {}
        offsets: dict[TopicPartition, Committed] = {}
        refused: dict[tuple[int, int], ErrorCode] = {}
        for number, each in part:
            yield
            if number not in topics:
                topic = body.topics[number]
                topics[number] = self._committable(topic.topic_id, topic.name, may, by_id=by_id)
            found, index = topics[number], each.partition_index
            if isinstance(found, ErrorCode) or index not in found.partitions:
                unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                refused[number, index] = found if isinstance(found, ErrorCode) else unknown
                continue
            collected.names[number] = found.name
            offsets[TopicPartition(found.name, index)] = _committed(
                each, body.retention_time_ms, found.topic_id
            )
        if any(self._is_gone(each) for each in topics.values()):
            # An offset of a topic that was deleted meanwhile would stay.
            yield from self._store(body, part, version, may, collected)
            return
        collected.refused.update(refused)
        if not offsets:
            return
        request = CommitOffsets(
            self._coordinators.new_id(),
            body.group_id,
            body.member_id,
            body.group_instance_id,
            body.generation_id_or_member_epoch,
            offsets,
            knows_missing=version >= _MISSING_SINCE,
        )
        collected.begin()
        self._coordinators.ask(request, partial(collected.answered, offsets))

    def _is_gone(self, topic: Topic | ErrorCode) -> bool:
        return isinstance(topic, Topic) and self._topics.get(topic.topic_id) is None

    def _identified(self, topic_id: UUID | None) -> Topic | None:
        """The topic of an id. An id of zeros is decoded as None."""
        return None if topic_id is None else self._topics.get(topic_id)

    def _committable(
        self, topic_id: UUID | None, name: str, may: May, *, by_id: bool
    ) -> Topic | ErrorCode:
        """The topic, or an error. In requests by name, a caller without the right does not learn whether the topic exists."""
        found = self._identified(topic_id) if by_id else self._topics.named(name)
        if found is None and by_id:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not may(name if found is None else found.name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return found or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    # -- OffsetFetch

    def fetch(
        self, inbound: InboundRequest, body: OffsetFetchRequest, rights: Rights = UNRESTRICTED
    ) -> None:
        """Answer OffsetFetch at once, or in pieces. Each group and each topic needs DESCRIBE; of all topics, the others are left out."""
        inbound.use_thread()
        inbound.in_pieces(self._fetch(inbound, body, rights))

    def _fetch(
        self, inbound: InboundRequest, body: OffsetFetchRequest, rights: Rights
    ) -> Iterator[None]:
        version = inbound.request.version
        if version < _MANY_GROUPS_SINCE:
            inbound.reply((yield from self._fetch_one(body, version, rights)))
            return
        groups = []
        for each in _each_group_once(body.groups):
            stable = body.require_stable
            groups.append((yield from self._fetch_group(each, version, rights, stable=stable)))
            yield
        inbound.reply(OffsetFetchResponse(groups=tuple(groups)))

    def _fetch_group(
        self, asked: FetchedGroup, version: int, rights: Rights, *, stable: bool
    ) -> Generator[None, None, FetchedGroupResponse]:
        by_id = version >= _TOPIC_IDS_SINCE
        may = on_topics(rights, AclOperation.DESCRIBE)
        error, known = self._known(asked.group_id, rights)
        if error != ErrorCode.NONE:
            return FetchedGroupResponse(group_id=asked.group_id, error_code=error)
        unstable = self._unstable(asked.group_id) if stable else frozenset[TopicPartition]()
        if asked.topics is None:
            topics = yield from self._all_of(known, may, by_id=by_id)
        else:
            topics = yield from _once(asked.topics)
        answered = []
        for topic in topics:
            yield
            partitions = []
            for each in self._fetched(topic, known, unstable, may, by_id=by_id):
                partitions.append(_answered(FetchedPartitionResponse, each))
                yield
            answered.append(
                FetchedTopicResponse(
                    name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions)
                )
            )
        return FetchedGroupResponse(group_id=asked.group_id, topics=tuple(answered))

    def _fetch_one(
        self, body: OffsetFetchRequest, version: int, rights: Rights
    ) -> Generator[None, None, OffsetFetchResponse]:
        """The answer for versions below 8. Below version 2, errors can only be reported for each partition."""
        may = on_topics(rights, AclOperation.DESCRIBE)
        error, known = self._known(body.group_id, rights)
        unstable = (
            self._unstable(body.group_id) if body.require_stable else frozenset[TopicPartition]()
        )
        if body.topics is None:
            topics = yield from self._all_of(known, may, by_id=False)
        else:
            topics = yield from _once(
                FetchedTopic(name=each.name, partition_indexes=each.partition_indexes)
                for each in body.topics
            )
        if error != ErrorCode.NONE and version >= _ONE_ERROR_SINCE:
            return OffsetFetchResponse(error_code=error)
        answered = []
        for topic in topics:
            yield
            partitions = []
            for found in self._fetched(topic, known, unstable, may, by_id=False):
                each = _Fetched(found.partition, error) if error != ErrorCode.NONE else found
                partitions.append(_answered(OffsetFetchPartitionResponse, each))
                yield
            answered.append(OffsetFetchTopicResponse(name=topic.name, partitions=tuple(partitions)))
        return OffsetFetchResponse(topics=tuple(answered))

    def _known(
        self, group_id: str, rights: Rights
    ) -> tuple[ErrorCode, Mapping[TopicPartition, Committed]]:
        if not rights.allows(AclOperation.DESCRIBE, AclResource.GROUP, group_id):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED, {}
        led = self._coordinators.of(group_id)
        if isinstance(led, GroupError):
            return group_code(led), {}
        # A copy: what is committed while the answer is made is not seen by half.
        return ErrorCode.NONE, dict(led.table.offsets.of(group_id))

    def _unstable(self, group_id: str) -> frozenset[TopicPartition]:
        led = self._coordinators.of(group_id)
        return frozenset() if isinstance(led, GroupError) else led.table.offsets.unstable(group_id)

    def _all_of(
        self, known: Mapping[TopicPartition, Committed], may: May, *, by_id: bool
    ) -> Generator[None, None, list[FetchedTopic]]:
        by_name: dict[str, list[int]] = {}
        for each in known:
            by_name.setdefault(each.topic, []).append(each.partition)
            yield
        found = []
        for name, partitions in by_name.items():
            yield
            if not may(name):
                continue
            topic = self._topics.named(name)
            if by_id and topic is None:
                continue  # a deleted topic has no id
            found.append(
                FetchedTopic(
                    name=name,
                    topic_id=topic.topic_id if by_id and topic is not None else None,
                    partition_indexes=tuple(partitions),
                )
            )
        return found

    def _fetched(
        self,
        topic: FetchedTopic,
        known: Mapping[TopicPartition, Committed],
        unstable: frozenset[TopicPartition],
        may: May,
        *,
        by_id: bool,
    ) -> Iterator[_Fetched]:
        name = topic.name
        if by_id:
            found = self._identified(topic.topic_id)
            if found is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID
                yield from (_Fetched(each, code) for each in topic.partition_indexes)
                return
            name = found.name
        if not may(name):
            denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            yield from (_Fetched(each, denied) for each in topic.partition_indexes)
            return
        for number in topic.partition_indexes:
            partition = TopicPartition(name, number)
            committed = known.get(partition)
            if partition in unstable:
                yield _Fetched(number, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            elif committed is None:
                yield _Fetched(number, ErrorCode.NONE)
            else:
                yield _Fetched(
                    number,
                    ErrorCode.NONE,
                    committed.offset,
                    committed.leader_epoch,
                    committed.metadata,
                )

    # -- OffsetDelete

    def delete(
        self, inbound: InboundRequest, body: OffsetDeleteRequest, rights: Rights = UNRESTRICTED
    ) -> None:
        """Answer OffsetDelete once the tombstones are stored. Each topic needs READ."""
        inbound.in_pieces(self._delete(inbound, body, on_topics(rights, AclOperation.READ)))

    def _delete(
        self, inbound: InboundRequest, body: OffsetDeleteRequest, may: May
    ) -> Iterator[None]:
        collected = Deleted(inbound, body)
        there: dict[TopicPartition, None] = {}
        for topic in body.topics:
            yield
            is_allowed = may(topic.name)
            for each in topic.partitions:
                yield
                partition = TopicPartition(topic.name, each.partition_index)
                if not is_allowed:
                    collected.codes[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                elif not self._exists(partition):
                    collected.codes[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    there[partition] = None
                if len(there) == _AT_ONCE:
                    self._forget(body, tuple(there), collected)
                    there = {}
        # Also if there are none: whether the group exists is known to its coordinator.
        self._forget(body, tuple(there), collected)
        collected.end()

    def _forget(
        self, body: OffsetDeleteRequest, there: tuple[TopicPartition, ...], collected: Deleted
    ) -> None:
        """Delete a part of the offsets."""
        request = DeleteOffsets(self._coordinators.new_id(), body.group_id, there)
        collected.begin()
        self._coordinators.ask(request, collected.answered)

    def _exists(self, partition: TopicPartition) -> bool:
        topic = self._topics.named(partition.topic)
        return topic is not None and partition.partition in topic.partitions


def _committed(asked: CommittedPartition, retention_ms: int, topic_id: UUID | None) -> Committed:
    now_ms = time_of_day_ms()
    return Committed(
        asked.committed_offset,
        asked.committed_leader_epoch,
        asked.committed_metadata or "",
        now_ms,
        NO_TIME if retention_ms == _NO_RETENTION else min(now_ms + retention_ms, _END_OF_TIME_MS),
        topic_id,
    )


def _each_group_once(groups: Iterable[FetchedGroup]) -> Iterable[FetchedGroup]:
    """The first request for each group. A group with many offsets, repeated with thousands of member ids, would fill the memory."""
    found: dict[str, FetchedGroup] = {}
    for each in groups:
        found.setdefault(each.group_id, each)
    return found.values()


def _answered(kind: type[_Answered], found: _Fetched) -> _Answered:
    """One partition in an answer; old and new versions differ only in the type."""
    return kind(
        partition_index=found.partition,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=found.error,
    )


def _once(topics: Iterable[FetchedTopic]) -> Generator[None, None, list[FetchedTopic]]:
    """The topics with each partition once. Repeated partitions would make an answer a thousand times as large as its request."""
    found: dict[tuple[str, UUID | None], dict[int, None]] = {}
    for each in topics:
        found.setdefault((each.name, each.topic_id), {}).update(
            dict.fromkeys(each.partition_indexes)
        )
        yield
    return [
        FetchedTopic(name=name, topic_id=topic_id, partition_indexes=tuple(partitions))
        for (name, topic_id), partitions in found.items()
    ]
