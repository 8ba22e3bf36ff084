"""DescribeGroups: state and members of classic groups (as shipped in 4.3; KIP-1043)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BOOL,
    BYTES,
    INT16,
    INT32,
    STRING,
    Array,
    Message,
    message,
    wire,
)


@message(flexible_since=5)
class DescribeGroupsRequest(Message):
    """DescribeGroups request."""

    groups: tuple[str, ...] = wire(Array(STRING))
    include_authorized_operations: bool = wire(BOOL, since=3, default=False)


@message()
class DescribedGroupMember(Message):
    """A member."""

    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(
        STRING, since=4, nullable_since=4, default=None, ignorable=True
    )
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    member_metadata: bytes = wire(BYTES)
    member_assignment: bytes = wire(BYTES)


@message()
class DescribedGroup(Message):
    """A group. Below version 6 a group that does not exist has the state `Dead`."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, since=6, nullable_since=6, default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    protocol_type: str = wire(STRING)
    protocol_data: str = wire(STRING)
    members: tuple[DescribedGroupMember, ...] = wire(Array(DescribedGroupMember))
    authorized_operations: int = wire(INT32, since=3, default=-2147483648)


@message(flexible_since=5)
class DescribeGroupsResponse(Message):
    """DescribeGroups response."""

    throttle_time_ms: int = wire(INT32, since=1, default=0, ignorable=True)
    groups: tuple[DescribedGroup, ...] = wire(Array(DescribedGroup))


DESCRIBE_GROUPS = Api(15, DescribeGroupsRequest, DescribeGroupsResponse, 0, 6)
