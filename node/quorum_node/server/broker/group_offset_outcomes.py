"""The outcomes of OffsetCommit and OffsetDelete, of which a group's coordinator stores one part after the other.

Owns the answers. They are made on the thread if they are large.
"""

from collections.abc import Callable, Iterable

from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.requests import Answer, PartitionsDone, TopicPartition
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.offset_commit import (
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
from quorum_node.server.broker.group_errors import group_code
from quorum_node.server.listener.port import InboundRequest


def commit_answer(
    body: OffsetCommitRequest, code: Callable[[int, int], ErrorCode]
) -> OffsetCommitResponse:
    """The answer with the error of every partition. `code`: by the topic's index in the request, and the partition's number."""
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitTopicResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitPartitionResponse(
                        partition_index=each.partition_index,
                        error_code=code(number, each.partition_index),
                    )
                    for each in topic.partitions
                ),
            )
            for number, topic in enumerate(body.topics)
        )
    )


class Stored:
    """The outcomes of the partitions of one OffsetCommit. `names`: of the topics, by their index in the request."""

    def __init__(self, inbound: InboundRequest, body: OffsetCommitRequest) -> None:
        self._inbound = inbound
        self._body = body
        self.names: dict[int, str] = {}
        self.refused: dict[tuple[int, int], ErrorCode] = {}
        self._errors: dict[TopicPartition, GroupError] = {}
        self._missing = 1
        """Parts without an outcome, and one until all are begun."""

    def begin(self) -> None:
        """A part is passed to the coordinator."""
        self._missing += 1

    def answered(self, offsets: Iterable[TopicPartition], answer: Answer) -> None:
        """The outcome of a part."""
        assert isinstance(answer, PartitionsDone)
        if answer.error is not GroupError.NONE:
            self._errors.update(dict.fromkeys(offsets, answer.error))
        else:
            self._errors.update(answer.errors)
        self.end()

    def end(self) -> None:
        """A part is over; answer after the last one."""
        self._missing -= 1
        if not self._missing:
            self._inbound.reply_made(self._answer)

    def _answer(self) -> OffsetCommitResponse:
        return commit_answer(self._body, self._code)

    def _code(self, number: int, index: int) -> ErrorCode:
        refused = self.refused.get((number, index))
        if refused is not None:
            return refused
        partition = TopicPartition(self.names[number], index)
        return group_code(self._errors.get(partition, GroupError.NONE))


class Deleted:
    """The outcomes of the partitions of one OffsetDelete. `codes`: of those that are known."""

    def __init__(self, inbound: InboundRequest, body: OffsetDeleteRequest) -> None:
        self._inbound = inbound
        self._body = body
        self.codes: dict[TopicPartition, ErrorCode] = {}
        self._error = GroupError.NONE
        self._missing = 1
        """Parts without an outcome, and one until all are begun."""

    def begin(self) -> None:
        """A part is passed to the coordinator."""
        self._missing += 1

    def answered(self, answer: Answer) -> None:
        """The outcome of a part. An error of the group is one of the whole request."""
        assert isinstance(answer, PartitionsDone)
        if answer.error is not GroupError.NONE:
            self._error = answer.error
        self.codes.update({each: group_code(why) for each, why in answer.errors.items()})
        self.end()

    def end(self) -> None:
        """A part is over; answer after the last one."""
        self._missing -= 1
        if not self._missing:
            self._inbound.reply_made(self._answer)

    def _answer(self) -> OffsetDeleteResponse:
        if self._error is not GroupError.NONE:
            return OffsetDeleteResponse(error_code=group_code(self._error), topics=())
        topics = tuple(
            OffsetDeleteTopicResponse(
                name=topic.name,
                partitions=tuple(
                    OffsetDeletePartitionResponse(
                        partition_index=each.partition_index,
                        error_code=self.codes[TopicPartition(topic.name, each.partition_index)],
                    )
                    for each in topic.partitions
                ),
            )
            for topic in self._body.topics
        )
        return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)
