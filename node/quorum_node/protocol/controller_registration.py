"""ControllerRegistration (KIP-919; as shipped in 4.3): a controller registers its listeners and features.

The replica UUID is ours, in a private tagged field: of two processes with one id only the newest
voter may register.
"""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.protocol.broker_registration import RegisteredListener, SupportedFeatureRange
from quorum_node.schema.schema import (
    BOOL,
    INT16,
    INT32,
    STRING,
    UUID_TYPE,
    Array,
    Message,
    message,
    wire,
)


@message(flexible_since=0)
class ControllerRegistrationRequest(Message):
    """ControllerRegistration request; `incarnation_id` is new for every process."""

    controller_id: int = wire(INT32)
    incarnation_id: UUID | None = wire(UUID_TYPE)
    zk_migration_ready: bool = wire(BOOL, default=False)
    listeners: tuple[RegisteredListener, ...] = wire(Array(RegisteredListener))
    features: tuple[SupportedFeatureRange, ...] = wire(Array(SupportedFeatureRange))
    directory_id: UUID | None = wire(UUID_TYPE, tag=20000, default=None)


@message(flexible_since=0)
class ControllerRegistrationResponse(Message):
    """ControllerRegistration response."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


CONTROLLER_REGISTRATION = Api(
    70, ControllerRegistrationRequest, ControllerRegistrationResponse, 0, 0
)
