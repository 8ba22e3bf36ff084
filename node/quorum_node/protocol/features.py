"""UpdateFeatures (KIP-584; as shipped in 4.3): finalized levels of features."""

from enum import IntEnum

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    STRING,
    Array,
    Message,
    message,
    wire,
)


class UpgradeType(IntEnum):
    """Permitted direction of a change."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@message()
class FeatureUpdate(Message):
    """The new level of one feature; below 1 removes it."""

    feature: str = wire(STRING)
    max_version_level: int = wire(INT16)
    allow_downgrade: bool = wire(BOOL, until=0, default=False, ignorable=True)
    upgrade_type: int = wire(INT8, since=1, default=UpgradeType.UPGRADE, ignorable=True)


@message(flexible_since=0)
class UpdateFeaturesRequest(Message):
    """UpdateFeatures request."""

    timeout_ms: int = wire(INT32, default=60_000)
    feature_updates: tuple[FeatureUpdate, ...] = wire(Array(FeatureUpdate))
    validate_only: bool = wire(BOOL, since=1, default=False)


@message()
class FeatureUpdateResult(Message):
    """Result for one feature."""

    feature: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


@message(flexible_since=0)
class UpdateFeaturesResponse(Message):
    """UpdateFeatures response; from version 2 on all updates fail or succeed together."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    results: tuple[FeatureUpdateResult, ...] = wire(
        Array(FeatureUpdateResult), until=1, default=(), ignorable=True
    )


UPDATE_FEATURES = Api(57, UpdateFeaturesRequest, UpdateFeaturesResponse, 0, 2, is_forwardable=True)
