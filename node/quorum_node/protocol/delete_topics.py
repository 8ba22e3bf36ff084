"""DeleteTopics, as shipped (KIP-4, KIP-516)."""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    INT16,
    INT32,
    STRING,
    UUID_TYPE,
    Array,
    Message,
    message,
    wire,
)


@message()
class DeleteTopicState(Message):
    """A topic by its name or by its id, never by both."""

    name: str | None = wire(STRING, since=6, nullable_since=6, default=None)
    topic_id: UUID | None = wire(UUID_TYPE, since=6, default=None)


@message(flexible_since=4)
class DeleteTopicsRequest(Message):
    """DeleteTopics request; names alone before version 6."""

    topics: tuple[DeleteTopicState, ...] = wire(Array(DeleteTopicState), since=6, default=())
    topic_names: tuple[str, ...] = wire(Array(STRING), until=5, default=(), ignorable=True)
    timeout_ms: int = wire(INT32)


@message()
class DeletableTopicResult(Message):
    """Result for one topic."""

    name: str | None = wire(STRING, nullable_since=6)
    topic_id: UUID | None = wire(UUID_TYPE, since=6, default=None, ignorable=True)
    error_code: int = wire(INT16)
    error_message: str | None = wire(
        STRING, since=5, nullable_since=5, default=None, ignorable=True
    )


@message(flexible_since=4)
class DeleteTopicsResponse(Message):
    """DeleteTopics response."""

    throttle_time_ms: int = wire(INT32, since=1, default=0, ignorable=True)
    responses: tuple[DeletableTopicResult, ...] = wire(Array(DeletableTopicResult))


DELETE_TOPICS = Api(20, DeleteTopicsRequest, DeleteTopicsResponse, 1, 6, is_forwardable=True)
