"""Translates RPCs of the quorum between Kafka's messages and the core's, partition by partition.

Kafka's RPCs are batches over topics and partitions; a message of the core concerns one partition. A process hosts several quorums
(K595-31). There are four directions:

    split       a received request       to one request of the core for each partition
    join        the core's answers       to the answer to send, in the order of the request
    to_wire     requests of the core     to one request to send
    from_wire   a received answer        to one answer of the core for each requested partition

The module of an RPC defines how one partition is translated. Does not depend on connections or replicas.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol

from quorum_node.protocol.api import Api
from quorum_node.raft import messages as raft
from quorum_node.raft.errors import RaftError
from quorum_node.schema.schema import Message
from quorum_node.server.wire.instant import Instant
from quorum_node.server.wire.partitions import (
    METADATA_TOPIC,
    NO_LEADER,
    Answer,
    PartitionKey,
    Split,
    missing_answer,
    node_endpoints,
    top_level_error,
)

Now = Callable[[], Instant]
Parts = Sequence[tuple[int, Any]]
"""Partition numbers and their requests, all of one type."""


class RaftRpc(Protocol):
    """The translation of one API. The methods of unsupported directions raise TypeError."""

    @property
    def api(self) -> Api: ...

    @property
    def core_request(self) -> type | None:
        """The type of the request that a replica sends as this RPC; None if no replica sends it."""

    @property
    def shared_fields(self) -> Callable[[Any], Hashable | None]:
        """The fields that have to be equal for requests of different partitions to share a message; None if they never share one."""

    @property
    def can_carry(self) -> Callable[[Any, int], bool]:
        """A function that returns whether a version of the API can express a request."""

    def split(self, body: Any) -> Split:
        """The core's requests in a Kafka request, in the order of its partitions."""

    def join(self, body: Any, answers: Sequence[Answer], now: Now) -> Message:
        """The answer to a request; `answers` in the order of `split`."""

    def to_wire(self, parts: Parts, version: int) -> Message:
        """The Kafka request for requests of the core that have equal `shared_fields`."""

    def from_wire(self, body: Any, numbers: Sequence[int]) -> list[raft.InboundResponse]:
        """The core's answers in a Kafka answer, for the partitions `numbers`, in this order."""


def not_a_direction(*_: Any) -> Any:
    """The placeholder for a direction that an API does not support. Raises TypeError."""
    raise TypeError("no replica uses this API in this direction")


def never_shared(request: Any) -> None:
    """The `shared_fields` of APIs whose requests never share a message."""


def always_carried(request: Any, version: int) -> bool:
    """The `can_carry` of APIs whose versions can express all requests."""
    return True


def usual_answer(
    api: Api, body: Message, topics: tuple[Message, ...], answers: Sequence[Answer]
) -> Message:
    """The answer in the form of most RPCs: a top-level error, the topics, and the leaders' endpoints."""
    made: Callable[..., Message] = api.response
    return made(
        error_code=top_level_error(answers), topics=topics, node_endpoints=node_endpoints(answers)
    )


def has_its_name(topic: Any) -> bool:
    """Whether a topic of an answer is the metadata topic, in APIs that name topics by `topic_name`."""
    return bool(topic.topic_name == METADATA_TOPIC)


@dataclass(frozen=True, slots=True)
class PartitionedRpc:
    """An RPC whose messages carry topics and partitions. See RaftRpc."""

    api: Api
    asked: Callable[[Any, Any, int], raft.Request]
    """(request, its partition, number of partitions in the request) to the core's request."""
    answer_topic: Callable[[Any, tuple[Any, ...]], Message]
    """(topic of the request, partitions of the answer) to the topic of the answer."""
    answer_part: Callable[[Any, Any, Answer, Now], Message]
    """(topic and partition of the request, the core's answer, the clocks) to the partition of the answer."""
    answer: Callable[[Api, Any, tuple[Any, ...], Sequence[Answer]], Message] = usual_answer
    core_request: type | None = None
    core_answer: Callable[[RaftError, raft.CurrentLeader], raft.InboundResponse] = not_a_direction
    request: Callable[[Parts, tuple[Any, ...], int], Message] = not_a_direction
    """(requests of the core, their translated partitions, version) to the request."""
    request_part: Callable[[int, Any], Message] = not_a_direction
    """(partition, request of the core) to the partition of the request."""
    answer_in: Callable[[Any, Any], raft.InboundResponse] = not_a_direction
    """(answer, its partition) to the core's answer."""
    shared_fields: Callable[[Any], Hashable | None] = never_shared
    can_carry: Callable[[Any, int], bool] = always_carried
    topic_name: Callable[[Any], str] = attrgetter("topic_name")
    partition: Callable[[Any], int] = attrgetter("partition_index")
    answered_topics: Callable[[Any], Any] = attrgetter("topics")
    answered_partition: Callable[[Any], int] = attrgetter("partition_index")
    is_metadata: Callable[[Any], bool] = has_its_name

    def split(self, body: Any) -> Split:
        """See RaftRpc."""
        topics, asked, partition = body.topics, self.asked, self.partition
        if len(topics) == 1:  # as in the fetches of every commit
            count = len(topics[0].partitions)
        else:
            count = sum([len(topic.partitions) for topic in topics])
        return [
            (PartitionKey(self.topic_name(topic), partition(part)), asked(body, part, count))
            for topic in topics
            for part in topic.partitions
        ]

    def join(self, body: Any, answers: Sequence[Answer], now: Now) -> Message:
        """See RaftRpc."""
        remaining, answer_part = iter(answers), self.answer_part
        topics = [
            self.answer_topic(
                topic,
                tuple(
                    [answer_part(topic, part, next(remaining), now) for part in topic.partitions]
                ),
            )
            for topic in body.topics
        ]
        return self.answer(self.api, body, tuple(topics), answers)

    def to_wire(self, parts: Parts, version: int) -> Message:
        """See RaftRpc."""
        partitions = tuple([self.request_part(number, request) for number, request in parts])
        return self.request(parts, partitions, version)

    def from_wire(self, body: Any, numbers: Sequence[int]) -> list[raft.InboundResponse]:
        """See RaftRpc."""
        code, partition = body.error_code, self.answered_partition
        found = {
            partition(part): part
            for topic in self.answered_topics(body)
            if self.is_metadata(topic)
            for part in topic.partitions
        }
        return [
            self.core_answer(missing_answer(code), NO_LEADER)
            if code or number not in found
            else self.answer_in(body, found[number])
            for number in numbers
        ]


@dataclass(frozen=True, slots=True)
class SinglePartitionRpc:
    """An RPC whose messages concern one partition. See RaftRpc."""

    api: Api
    asked: Callable[[Any], tuple[PartitionKey, raft.Request]] = not_a_direction
    """The partition that a request concerns, and the core's request."""
    answer: Callable[[Any, Answer], Message] = not_a_direction
    """(request, the core's answer) to the answer."""
    core_request: type | None = None
    request: Callable[[int, Any], Message] = not_a_direction
    """(partition, request of the core) to the request."""
    answer_in: Callable[[Any], raft.InboundResponse] = not_a_direction
    """The core's answer in an answer."""
    can_carry: Callable[[Any, int], bool] = always_carried
    shared_fields: Callable[[Any], Hashable | None] = never_shared

    def split(self, body: Any) -> Split:
        """See RaftRpc."""
        return [self.asked(body)]

    def join(self, body: Any, answers: Sequence[Answer], now: Now) -> Message:
        """See RaftRpc."""
        return self.answer(body, answers[0])

    def to_wire(self, parts: Parts, version: int) -> Message:
        """See RaftRpc."""
        return self.request(*parts[0])

    def from_wire(self, body: Any, numbers: Sequence[int]) -> list[raft.InboundResponse]:
        """See RaftRpc."""
        return [self.answer_in(body)]
