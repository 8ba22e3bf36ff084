"""SyncGroup: the leader sends the assignments of a generation, every member gets its own (as
shipped in 4.3).
"""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BYTES,
    INT16,
    INT32,
    STRING,
    Array,
    Message,
    message,
    wire,
)


@message()
class SyncGroupAssignment(Message):
    """Assignment of one member."""

    member_id: str = wire(STRING)
    assignment: bytes = wire(BYTES)


@message(flexible_since=4)
class SyncGroupRequest(Message):
    """SyncGroup request; only the leader sends `assignments`."""

    group_id: str = wire(STRING)
    generation_id: int = wire(INT32)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=3, nullable_since=3, default=None)
    protocol_type: str | None = wire(
        STRING, since=5, nullable_since=5, default=None, ignorable=True
    )
    protocol_name: str | None = wire(
        STRING, since=5, nullable_since=5, default=None, ignorable=True
    )
    assignments: tuple[SyncGroupAssignment, ...] = wire(Array(SyncGroupAssignment))


@message(flexible_since=4)
class SyncGroupResponse(Message):
    """SyncGroup response."""

    throttle_time_ms: int = wire(INT32, since=1, default=0, ignorable=True)
    error_code: int = wire(INT16)
    protocol_type: str | None = wire(
        STRING, since=5, nullable_since=5, default=None, ignorable=True
    )
    protocol_name: str | None = wire(
        STRING, since=5, nullable_since=5, default=None, ignorable=True
    )
    assignment: bytes = wire(BYTES)


SYNC_GROUP = Api(14, SyncGroupRequest, SyncGroupResponse, 0, 5)
