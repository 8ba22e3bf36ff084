"""ApiVersions: which APIs and features a node supports (KIP-511, KIP-584; as shipped, versions 0-4)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    Message,
    message,
    wire,
)


@message(flexible_since=3)
class ApiVersionsRequest(Message):
    """ApiVersions request."""

    client_software_name: str = wire(STRING, since=3, default="", ignorable=True)
    client_software_version: str = wire(STRING, since=3, default="", ignorable=True)


@message()
class ApiVersion(Message):
    """Versions of one API, both ends inclusive."""

    api_key: int = wire(INT16)
    min_version: int = wire(INT16)
    max_version: int = wire(INT16)


@message()
class SupportedFeature(Message):
    """Versions of one feature, both ends inclusive."""

    name: str = wire(STRING, since=3, default="")
    min_version: int = wire(INT16, since=3, default=0)
    max_version: int = wire(INT16, since=3, default=0)


@message()
class FinalizedFeature(Message):
    """Level of one feature in the cluster."""

    name: str = wire(STRING, since=3, default="")
    max_version_level: int = wire(INT16, since=3, default=0)
    min_version_level: int = wire(INT16, since=3, default=0)


@message(flexible_since=3)
class ApiVersionsResponse(Message):
    """ApiVersions response; its header never has tagged fields."""

    error_code: int = wire(INT16)
    api_keys: tuple[ApiVersion, ...] = wire(Array(ApiVersion))
    throttle_time_ms: int = wire(INT32, since=1, default=0, ignorable=True)
    supported_features: tuple[SupportedFeature, ...] = wire(
        Array(SupportedFeature), since=3, tag=0, default=(), ignorable=True
    )
    finalized_features_epoch: int = wire(INT64, since=3, tag=1, default=-1, ignorable=True)
    finalized_features: tuple[FinalizedFeature, ...] = wire(
        Array(FinalizedFeature), since=3, tag=2, default=(), ignorable=True
    )
    zk_migration_ready: bool = wire(BOOL, since=3, tag=3, default=False, ignorable=True)


API_VERSIONS = Api(18, ApiVersionsRequest, ApiVersionsResponse, 0, 4, is_about_quorum=True)
