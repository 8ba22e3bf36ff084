"""DeleteGroups: delete groups without members and their committed offsets (KIP-229)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    INT16,
    INT32,
    STRING,
    Array,
    Message,
    message,
    wire,
)


@message(flexible_since=2)
class DeleteGroupsRequest(Message):
    """DeleteGroups request."""

    groups_names: tuple[str, ...] = wire(Array(STRING))


@message()
class DeletedGroup(Message):
    """Result for one group."""

    group_id: str = wire(STRING)
    error_code: int = wire(INT16)


@message(flexible_since=2)
class DeleteGroupsResponse(Message):
    """DeleteGroups response."""

    throttle_time_ms: int = wire(INT32, default=0)
    results: tuple[DeletedGroup, ...] = wire(Array(DeletedGroup))


DELETE_GROUPS = Api(42, DeleteGroupsRequest, DeleteGroupsResponse, 0, 2)
