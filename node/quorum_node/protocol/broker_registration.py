"""BrokerRegistration, BrokerHeartbeat and UnregisterBroker (KIP-631; as shipped in 4.3).

A broker registers once per process and then renews its lease with heartbeats.
"""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID_TYPE,
    Array,
    Message,
    message,
    wire,
)


@message()
class RegisteredListener(Message):
    """A listener of a registered node; `security_protocol` 0 is PLAINTEXT."""

    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)
    security_protocol: int = wire(INT16)


@message()
class SupportedFeatureRange(Message):
    """Versions of one feature that a node supports, both ends inclusive."""

    name: str = wire(STRING)
    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)


@message(flexible_since=0)
class BrokerRegistrationRequest(Message):
    """BrokerRegistration request; `incarnation_id` is new for every process."""

    broker_id: int = wire(INT32)
    cluster_id: str = wire(STRING)
    incarnation_id: UUID | None = wire(UUID_TYPE)
    listeners: tuple[RegisteredListener, ...] = wire(Array(RegisteredListener))
    features: tuple[SupportedFeatureRange, ...] = wire(Array(SupportedFeatureRange))
    rack: str | None = wire(STRING, nullable_since=0)
    is_migrating_zk_broker: bool = wire(BOOL, since=1, default=False)
    log_dirs: tuple[UUID | None, ...] = wire(Array(UUID_TYPE), since=2, default=(), ignorable=True)
    previous_broker_epoch: int = wire(INT64, since=3, default=-1, ignorable=True)


@message(flexible_since=0)
class BrokerRegistrationResponse(Message):
    """BrokerRegistration response."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    broker_epoch: int = wire(INT64, default=-1)


@message(flexible_since=0)
class BrokerHeartbeatRequest(Message):
    """BrokerHeartbeat request; `current_metadata_offset` is the last one that the broker applied."""

    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)
    current_metadata_offset: int = wire(INT64)
    want_fence: bool = wire(BOOL)
    want_shut_down: bool = wire(BOOL)
    offline_log_dirs: tuple[UUID | None, ...] = wire(
        Array(UUID_TYPE), since=1, tag=0, default=(), ignorable=True
    )
    cordoned_log_dirs: tuple[UUID | None, ...] | None = wire(
        Array(UUID_TYPE), since=2, nullable_since=2, tag=1, default=None, ignorable=True
    )


@message(flexible_since=0)
class BrokerHeartbeatResponse(Message):
    """BrokerHeartbeat response."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    is_caught_up: bool = wire(BOOL, default=False)
    is_fenced: bool = wire(BOOL, default=True)
    should_shut_down: bool = wire(BOOL, default=False)


@message(flexible_since=0)
class UnregisterBrokerRequest(Message):
    """UnregisterBroker request."""

    broker_id: int = wire(INT32)


@message(flexible_since=0)
class UnregisterBrokerResponse(Message):
    """UnregisterBroker response."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


BROKER_REGISTRATION = Api(62, BrokerRegistrationRequest, BrokerRegistrationResponse, 0, 4)
BROKER_HEARTBEAT = Api(63, BrokerHeartbeatRequest, BrokerHeartbeatResponse, 0, 2)
UNREGISTER_BROKER = Api(
    64, UnregisterBrokerRequest, UnregisterBrokerResponse, 0, 0, is_forwardable=True
)
