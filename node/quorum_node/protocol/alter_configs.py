"""AlterConfigs, as shipped (KIP-133): replaces all configs of a resource.

`configs.py` has its successor IncrementalAlterConfigs, and DescribeConfigs.
"""

from quorum_node.protocol.api import Api
from quorum_node.protocol.configs import AlterConfigsResult
from quorum_node.schema.schema import (
    BOOL,
    INT8,
    INT32,
    STRING,
    Array,
    Message,
    message,
    wire,
)


@message()
class ReplacedConfig(Message):
    """A new config of a resource."""

    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable_since=0)


@message()
class ReplacedResource(Message):
    """All new configs of a resource; the others are deleted."""

    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: tuple[ReplacedConfig, ...] = wire(Array(ReplacedConfig))


@message(flexible_since=2)
class AlterConfigsRequest(Message):
    """AlterConfigs request."""

    resources: tuple[ReplacedResource, ...] = wire(Array(ReplacedResource))
    validate_only: bool = wire(BOOL)


@message(flexible_since=2)
class AlterConfigsResponse(Message):
    """AlterConfigs response."""

    throttle_time_ms: int = wire(INT32, default=0)
    responses: tuple[AlterConfigsResult, ...] = wire(Array(AlterConfigsResult))


ALTER_CONFIGS = Api(33, AlterConfigsRequest, AlterConfigsResponse, 0, 2, is_forwardable=True)
