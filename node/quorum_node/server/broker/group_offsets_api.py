"""OffsetCommit, OffsetFetch and OffsetDelete: translated between the wire and the group's coordinator.

Owns the translation of topic names and ids, and the differences between versions. Does not validate offsets.
Source: the rules of a stock broker for OffsetCommit 2 to 10, OffsetFetch 1 to 10 and OffsetDelete 0; KIP-447, KIP-709.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from quorum_node.controller.authorization import UNRESTRICTED, AclOperation, AclResource, Rights
from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.requests import (
    Answer,
    CommitOffsets,
    Committed,
    DeleteOffsets,
    PartitionsDone,
    TopicPartition,
)
from quorum_node.image.topics import Topic, TopicsImage
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.offset_commit import (
    CommittedTopic,
    OffsetCommitPartitionResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopicResponse,
)
from quorum_node.protocol.offset_delete import (
    OffsetDeletePartitionResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteTopicResponse,
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
from quorum_node.server.broker.topic_lookup import May, on_topics
from quorum_node.server.listener.port import InboundRequest
from quorum_node.storage.broker.time_of_day import time_of_day_ms

_NO_OFFSET = -1
_NO_EPOCH = -1
_TOPIC_IDS_SINCE = 10
_MANY_GROUPS_SINCE = 8
_ONE_ERROR_SINCE = 2
_NO_RETENTION = -1
_END_OF_TIME_MS = (1 << 63) - 1
"""The largest timestamp that a record can contain."""


class _Fetched(NamedTuple):
    """The answer for one partition."""

    partition: int
    error: ErrorCode
    offset: int = _NO_OFFSET
    leader_epoch: int = _NO_EPOCH
    metadata: str = ""


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
        may = on_topics(rights, AclOperation.READ)
        offsets: dict[TopicPartition, Committed] = {}
        refused: dict[tuple[int, int], ErrorCode] = {}
        for number, topic in enumerate(body.topics):
            found = self._committable(topic.topic_id, topic.name, may)
            for each in topic.partitions:
                if isinstance(found, ErrorCode) or each.partition_index not in found.partitions:
                    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    code = found if isinstance(found, ErrorCode) else unknown
                    refused[number, each.partition_index] = code
                    continue
                now_ms, kept_ms = time_of_day_ms(), body.retention_time_ms
                offsets[TopicPartition(found.name, each.partition_index)] = Committed(
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                    now_ms,
                    NO_TIME if kept_ms == _NO_RETENTION else min(now_ms + kept_ms, _END_OF_TIME_MS),
                    found.topic_id,
                )

        def answered(answer: Answer) -> None:
            assert isinstance(answer, PartitionsDone)
            inbound.reply(
                OffsetCommitResponse(
                    topics=tuple(
                        self._committed(number, topic, answer, refused)
                        for number, topic in enumerate(body.topics)
                    )
                )
            )

        if not offsets:
            answered(PartitionsDone(GroupError.NONE, {}))
            return
        request = CommitOffsets(
            self._coordinators.new_id(),
            body.group_id,
            body.member_id,
            body.group_instance_id,
            body.generation_id_or_member_epoch,
            offsets,
        )
        self._coordinators.ask(request, answered)

    def _committed(
        self,
        number: int,
        topic: CommittedTopic,
        answer: PartitionsDone,
        refused: Mapping[tuple[int, int], ErrorCode],
    ) -> OffsetCommitTopicResponse:
        found = self._topic(topic.topic_id, topic.name)
        name = found.name if isinstance(found, Topic) else topic.name

        def code(index: int) -> ErrorCode:
            if (number, index) in refused:
                return refused[number, index]
            if answer.error is not GroupError.NONE:
                return group_code(answer.error)
            return group_code(answer.errors.get(TopicPartition(name, index), GroupError.NONE))

        return OffsetCommitTopicResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                OffsetCommitPartitionResponse(
                    partition_index=each.partition_index, error_code=code(each.partition_index)
                )
                for each in topic.partitions
            ),
        )

    def _topic(self, topic_id: UUID | None, name: str) -> Topic | ErrorCode:
        if topic_id is not None:
            return self._topics.get(topic_id) or ErrorCode.UNKNOWN_TOPIC_ID
        return self._topics.named(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _committable(self, topic_id: UUID | None, name: str, may: May) -> Topic | ErrorCode:
        """The topic, or an error. In requests by name, a caller without the right does not learn whether the topic exists."""
        found = self._topic(topic_id, name)
        if found == ErrorCode.UNKNOWN_TOPIC_ID:
            return found
        if not may(found.name if isinstance(found, Topic) else name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return found

    # -- OffsetFetch

    def fetch(
        self, inbound: InboundRequest, body: OffsetFetchRequest, rights: Rights = UNRESTRICTED
    ) -> None:
        """Answer OffsetFetch at once. Each group and each topic needs DESCRIBE; of all topics, the others are left out."""
        if inbound.request.version >= _MANY_GROUPS_SINCE:
            groups = tuple(
                self._fetch_group(each, inbound.request.version, rights, stable=body.require_stable)
                for each in _each_group_once(body.groups)
            )
            inbound.reply(OffsetFetchResponse(groups=groups))
            return
        inbound.reply(self._fetch_one(body, inbound.request.version, rights))

    def _fetch_group(
        self, asked: FetchedGroup, version: int, rights: Rights, *, stable: bool
    ) -> FetchedGroupResponse:
        by_id = version >= _TOPIC_IDS_SINCE
        may = on_topics(rights, AclOperation.DESCRIBE)
        error, known = self._known(asked.group_id, rights)
        if error != ErrorCode.NONE:
            return FetchedGroupResponse(group_id=asked.group_id, error_code=error)
        unstable = self._unstable(asked.group_id) if stable else frozenset[TopicPartition]()
        topics = (
            self._all_of(known, may, by_id=by_id) if asked.topics is None else _once(asked.topics)
        )
        return FetchedGroupResponse(
            group_id=asked.group_id,
            topics=tuple(
                FetchedTopicResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        FetchedPartitionResponse(
                            partition_index=each.partition,
                            committed_offset=each.offset,
                            committed_leader_epoch=each.leader_epoch,
                            metadata=each.metadata,
                            error_code=each.error,
                        )
                        for each in self._fetched(topic, known, unstable, may, by_id=by_id)
                    ),
                )
                for topic in topics
            ),
        )

    def _fetch_one(
        self, body: OffsetFetchRequest, version: int, rights: Rights
    ) -> OffsetFetchResponse:
        """The answer for versions below 8. Below version 2, errors can only be reported for each partition."""
        may = on_topics(rights, AclOperation.DESCRIBE)
        error, known = self._known(body.group_id, rights)
        unstable = (
            self._unstable(body.group_id) if body.require_stable else frozenset[TopicPartition]()
        )
        topics: Iterable[FetchedTopic] = (
            self._all_of(known, may, by_id=False)
            if body.topics is None
            else _once(
                FetchedTopic(name=each.name, partition_indexes=each.partition_indexes)
                for each in body.topics
            )
        )
        if error != ErrorCode.NONE and version >= _ONE_ERROR_SINCE:
            return OffsetFetchResponse(error_code=error)
        answered = []
        for topic in topics:
            found = self._fetched(topic, known, unstable, may, by_id=False)
            if error != ErrorCode.NONE:
                found = [_Fetched(each.partition, error) for each in found]
            answered.append(
                OffsetFetchTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        OffsetFetchPartitionResponse(
                            partition_index=each.partition,
                            committed_offset=each.offset,
                            committed_leader_epoch=each.leader_epoch,
                            metadata=each.metadata,
                            error_code=each.error,
                        )
                        for each in found
                    ),
                )
            )
        return OffsetFetchResponse(topics=tuple(answered))

    def _known(
        self, group_id: str, rights: Rights
    ) -> tuple[ErrorCode, Mapping[TopicPartition, Committed]]:
        if not rights.allows(AclOperation.DESCRIBE, AclResource.GROUP, group_id):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED, {}
        led = self._coordinators.of(group_id)
        if isinstance(led, GroupError):
            return group_code(led), {}
        return ErrorCode.NONE, led.table.offsets.of(group_id)

    def _unstable(self, group_id: str) -> frozenset[TopicPartition]:
        led = self._coordinators.of(group_id)
        return frozenset() if isinstance(led, GroupError) else led.table.offsets.unstable(group_id)

    def _all_of(
        self, known: Mapping[TopicPartition, Committed], may: May, *, by_id: bool
    ) -> list[FetchedTopic]:
        by_name: dict[str, list[int]] = {}
        for each in known:
            by_name.setdefault(each.topic, []).append(each.partition)
        found = []
        for name, partitions in by_name.items():
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
    ) -> list[_Fetched]:
        name = topic.name
        if by_id:
            found = None if topic.topic_id is None else self._topics.get(topic.topic_id)
            if found is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID
                return [_Fetched(each, code) for each in topic.partition_indexes]
            name = found.name
        if not may(name):
            denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return [_Fetched(each, denied) for each in topic.partition_indexes]
        answers = []
        for number in topic.partition_indexes:
            partition = TopicPartition(name, number)
            committed = known.get(partition)
            if partition in unstable:
                answers.append(_Fetched(number, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            elif committed is None:
                answers.append(_Fetched(number, ErrorCode.NONE))
            else:
                answers.append(
                    _Fetched(
                        number,
                        ErrorCode.NONE,
                        committed.offset,
                        committed.leader_epoch,
                        committed.metadata,
                    )
                )
        return answers

    # -- OffsetDelete

    def delete(
        self, inbound: InboundRequest, body: OffsetDeleteRequest, rights: Rights = UNRESTRICTED
    ) -> None:
        """Answer OffsetDelete once the tombstones are stored. Each topic needs READ."""
        may = on_topics(rights, AclOperation.READ)
        asked = tuple(
            TopicPartition(topic.name, each.partition_index)
            for topic in body.topics
            for each in topic.partitions
        )
        there = tuple(each for each in asked if may(each.topic) and self._exists(each))

        def code(answer: PartitionsDone, partition: TopicPartition) -> ErrorCode:
            if not may(partition.topic):
                return ErrorCode.TOPIC_AUTHORIZATION_FAILED
            if not self._exists(partition):
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return group_code(answer.errors.get(partition, GroupError.NONE))

        def answered(answer: Answer) -> None:
            assert isinstance(answer, PartitionsDone)
            if answer.error is not GroupError.NONE:
                inbound.reply(OffsetDeleteResponse(error_code=group_code(answer.error), topics=()))
                return
            topics = tuple(
                OffsetDeleteTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        OffsetDeletePartitionResponse(
                            partition_index=each.partition_index,
                            error_code=code(
                                answer, TopicPartition(topic.name, each.partition_index)
                            ),
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in body.topics
            )
            inbound.reply(OffsetDeleteResponse(error_code=0, topics=topics))

        request = DeleteOffsets(self._coordinators.new_id(), body.group_id, there)
        self._coordinators.ask(request, answered)

    def _exists(self, partition: TopicPartition) -> bool:
        topic = self._topics.named(partition.topic)
        return topic is not None and partition.partition in topic.partitions


def _each_group_once(groups: Iterable[FetchedGroup]) -> Iterable[FetchedGroup]:
    """The first request for each group. A group with many offsets, repeated with thousands of member ids, would fill the memory."""
    found: dict[str, FetchedGroup] = {}
    for each in groups:
        found.setdefault(each.group_id, each)
    return found.values()


def _once(topics: Iterable[FetchedTopic]) -> list[FetchedTopic]:
    """The topics with each partition once. Repeated partitions would make an answer a thousand times as large as its request."""
    found: dict[tuple[str, UUID | None], dict[int, None]] = {}
    for each in topics:
        found.setdefault((each.name, each.topic_id), {}).update(
            dict.fromkeys(each.partition_indexes)
        )
    return [
        FetchedTopic(name=name, topic_id=topic_id, partition_indexes=tuple(partitions))
        for (name, topic_id), partitions in found.items()
    ]
