"""FindCoordinator: which broker coordinates a group or a transactional id (as shipped in 4.3, versions 0-6)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import INT8, INT16, INT32, STRING, Array, Message, message, wire

_BEFORE_BATCHES = 3
"""The last version with a single key."""


@message(flexible_since=3)
class FindCoordinatorRequest(Message):
    """FindCoordinator request; `key_type`: 0 for a group, 1 for a transactional id, 2 for a share group."""

    key: str = wire(STRING, until=_BEFORE_BATCHES, default="", ignorable=True)
    key_type: int = wire(INT8, since=1, default=0, ignorable=True)
    coordinator_keys: tuple[str, ...] = wire(Array(STRING), since=4, default=(), ignorable=True)


@message()
class Coordinator(Message):
    """Result for one key."""

    key: str = wire(STRING, since=4, default="")
    node_id: int = wire(INT32, since=4, default=-1)
    host: str = wire(STRING, since=4, default="")
    port: int = wire(INT32, since=4, default=-1)
    error_code: int = wire(INT16, since=4, default=0)
    error_message: str | None = wire(
        STRING, since=4, nullable_since=4, default=None, ignorable=True
    )


@message(flexible_since=3)
class FindCoordinatorResponse(Message):
    """FindCoordinator response."""

    throttle_time_ms: int = wire(INT32, since=1, default=0, ignorable=True)
    error_code: int = wire(INT16, until=_BEFORE_BATCHES, default=0, ignorable=True)
    error_message: str | None = wire(
        STRING, since=1, until=_BEFORE_BATCHES, nullable_since=1, default=None, ignorable=True
    )
    node_id: int = wire(INT32, until=_BEFORE_BATCHES, default=-1, ignorable=True)
    host: str = wire(STRING, until=_BEFORE_BATCHES, default="", ignorable=True)
    port: int = wire(INT32, until=_BEFORE_BATCHES, default=-1, ignorable=True)
    coordinators: tuple[Coordinator, ...] = wire(
        Array(Coordinator), since=4, default=(), ignorable=True
    )


FIND_COORDINATOR = Api(10, FindCoordinatorRequest, FindCoordinatorResponse, 0, 6)
