"""LeaveGroup: members leave a classic group (as shipped in 4.3; KIP-345 for many at once)."""

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


@message()
class LeavingMember(Message):
    """A member, by its id or its instance id."""

    member_id: str = wire(STRING, since=3, default="")
    group_instance_id: str | None = wire(STRING, since=3, nullable_since=3, default=None)
    reason: str | None = wire(STRING, since=5, nullable_since=5, default=None, ignorable=True)


@message(flexible_since=4)
class LeaveGroupRequest(Message):
    """LeaveGroup request; one member below version 3."""

    group_id: str = wire(STRING)
    member_id: str = wire(STRING, until=2, default="")
    members: tuple[LeavingMember, ...] = wire(Array(LeavingMember), since=3, default=())


@message()
class LeftMember(Message):
    """Result for one member."""

    member_id: str = wire(STRING, since=3, default="")
    group_instance_id: str | None = wire(STRING, since=3, nullable_since=3, default="")
    error_code: int = wire(INT16, since=3, default=0)


@message(flexible_since=4)
class LeaveGroupResponse(Message):
    """LeaveGroup response."""

    throttle_time_ms: int = wire(INT32, since=1, default=0, ignorable=True)
    error_code: int = wire(INT16)
    members: tuple[LeftMember, ...] = wire(Array(LeftMember), since=3, default=())


LEAVE_GROUP = Api(13, LeaveGroupRequest, LeaveGroupResponse, 0, 5)
