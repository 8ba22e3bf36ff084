"""ControllerHeartbeat (KIP-631, "ControllerHeartbeat"): reports a controller's newest snapshot, and
returns whether to write one now.

Field for field as in the KIP; the API key is private (`apis.py`). The sender's progress since its
newest snapshot is in private tagged fields.
"""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    UUID_TYPE,
    Message,
    message,
    wire,
)


@message(flexible_since=0)
class ControllerHeartbeatRequest(Message):
    """`last_snapshot_offset`: end offset of the newest snapshot, 0 for none.

    `record_bytes` and `age_ms`: replayed bytes and time since that snapshot; -1: not sent.
    `writing`: a snapshot is being written. `directory_id`: the replica UUID; without it two
    replicas of one id can't be distinguished.
    """

    controller_id: int = wire(INT32)
    last_snapshot_offset: int = wire(INT64)
    record_bytes: int = wire(INT64, tag=20000, default=-1)
    age_ms: int = wire(INT64, tag=20001, default=-1)
    writing: bool = wire(BOOL, tag=20002, default=False)
    directory_id: UUID | None = wire(UUID_TYPE, tag=20003, default=None)


@message(flexible_since=0)
class ControllerHeartbeatResponse(Message):
    """NOT_CONTROLLER from all nodes but the active controller."""

    error_code: int = wire(INT16)
    start_snapshot: bool = wire(BOOL)


CONTROLLER_HEARTBEAT = Api(20003, ControllerHeartbeatRequest, ControllerHeartbeatResponse, 0, 0)
