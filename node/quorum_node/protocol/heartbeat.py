"""Heartbeat of a member of a classic group (as shipped in 4.3)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    INT16,
    INT32,
    STRING,
    Message,
    message,
    wire,
)


@message(flexible_since=4)
class HeartbeatRequest(Message):
    """Heartbeat request."""

    group_id: str = wire(STRING)
    generation_id: int = wire(INT32)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=3, nullable_since=3, default=None)


@message(flexible_since=4)
class HeartbeatResponse(Message):
    """Heartbeat response."""

    throttle_time_ms: int = wire(INT32, since=1, default=0, ignorable=True)
    error_code: int = wire(INT16)


HEARTBEAT = Api(12, HeartbeatRequest, HeartbeatResponse, 0, 4)
