"""ListGroups: the groups that a broker coordinates (as shipped in 4.3; KIP-518, KIP-848)."""

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


@message(flexible_since=3)
class ListGroupsRequest(Message):
    """ListGroups request; an empty filter takes all."""

    states_filter: tuple[str, ...] = wire(Array(STRING), since=4, default=())
    types_filter: tuple[str, ...] = wire(Array(STRING), since=5, default=())


@message()
class ListedGroup(Message):
    """A group."""

    group_id: str = wire(STRING)
    protocol_type: str = wire(STRING)
    group_state: str = wire(STRING, since=4, default="", ignorable=True)
    group_type: str = wire(STRING, since=5, default="", ignorable=True)


@message(flexible_since=3)
class ListGroupsResponse(Message):
    """ListGroups response."""

    throttle_time_ms: int = wire(INT32, since=1, default=0, ignorable=True)
    error_code: int = wire(INT16)
    groups: tuple[ListedGroup, ...] = wire(Array(ListedGroup))


LIST_GROUPS = Api(16, ListGroupsRequest, ListGroupsResponse, 0, 5)
