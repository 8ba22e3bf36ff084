"""JoinGroup: a member joins a classic group, or rejoins for its next generation (as shipped in 4.3;
KIP-345, KIP-394, KIP-800).
"""

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


@message()
class JoinGroupProtocol(Message):
    """A protocol that the member supports; `metadata` is its subscription."""

    name: str = wire(STRING)
    metadata: bytes = wire(BYTES)


@message(flexible_since=6)
class JoinGroupRequest(Message):
    """JoinGroup request. Without a rebalance timeout (version 0) the session timeout is used."""

    group_id: str = wire(STRING)
    session_timeout_ms: int = wire(INT32)
    rebalance_timeout_ms: int = wire(INT32, since=1, default=-1, ignorable=True)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=5, nullable_since=5, default=None)
    protocol_type: str = wire(STRING)
    protocols: tuple[JoinGroupProtocol, ...] = wire(Array(JoinGroupProtocol))
    reason: str | None = wire(STRING, since=8, nullable_since=8, default=None, ignorable=True)


@message()
class JoinGroupMember(Message):
    """A member as the leader of the group sees it."""

    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(
        STRING, since=5, nullable_since=5, default=None, ignorable=True
    )
    metadata: bytes = wire(BYTES)


@message(flexible_since=6)
class JoinGroupResponse(Message):
    """JoinGroup response; `members` are for the leader alone."""

    throttle_time_ms: int = wire(INT32, since=2, default=0, ignorable=True)
    error_code: int = wire(INT16)
    generation_id: int = wire(INT32, default=-1)
    protocol_type: str | None = wire(
        STRING, since=7, nullable_since=7, default=None, ignorable=True
    )
    protocol_name: str | None = wire(STRING, nullable_since=7)
    leader: str = wire(STRING)
    skip_assignment: bool = wire(BOOL, since=9, default=False)
    member_id: str = wire(STRING)
    members: tuple[JoinGroupMember, ...] = wire(Array(JoinGroupMember))


JOIN_GROUP = Api(11, JoinGroupRequest, JoinGroupResponse, 0, 9)
