"""IncrementalAlterConfigs and DescribeConfigs (KIP-339, KIP-133; as shipped).

A stock AdminClient writes and reads config values through them.
"""

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


class ConfigOperation(IntEnum):
    """What to do with a value; the last two concern lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@message()
class AlterableConfig(Message):
    """One change."""

    name: str = wire(STRING)
    config_operation: int = wire(INT8)
    value: str | None = wire(STRING, nullable_since=0)


@message()
class AlterConfigsResource(Message):
    """Changes of one resource."""

    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: tuple[AlterableConfig, ...] = wire(Array(AlterableConfig))


@message(flexible_since=1)
class IncrementalAlterConfigsRequest(Message):
    """IncrementalAlterConfigs request."""

    resources: tuple[AlterConfigsResource, ...] = wire(Array(AlterConfigsResource))
    validate_only: bool = wire(BOOL)


@message()
class AlterConfigsResult(Message):
    """Result for one resource."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)


@message(flexible_since=1)
class IncrementalAlterConfigsResponse(Message):
    """IncrementalAlterConfigs response."""

    throttle_time_ms: int = wire(INT32, default=0)
    responses: tuple[AlterConfigsResult, ...] = wire(Array(AlterConfigsResult))


@message()
class DescribeConfigsResource(Message):
    """A resource to describe; no keys means all of them."""

    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configuration_keys: tuple[str, ...] | None = wire(Array(STRING), nullable_since=0, default=None)


@message(flexible_since=4)
class DescribeConfigsRequest(Message):
    """DescribeConfigs request."""

    resources: tuple[DescribeConfigsResource, ...] = wire(Array(DescribeConfigsResource))
    include_synonyms: bool = wire(BOOL, since=1, default=False, ignorable=True)
    include_documentation: bool = wire(BOOL, since=3, default=False, ignorable=True)


@message()
class ConfigSynonym(Message):
    """A value with a lower priority."""

    name: str = wire(STRING, since=1, default="", ignorable=True)
    value: str | None = wire(STRING, since=1, nullable_since=0, default=None, ignorable=True)
    source: int = wire(INT8, since=1, default=0, ignorable=True)


@message()
class DescribedConfig(Message):
    """One config value."""

    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable_since=0)
    read_only: bool = wire(BOOL)
    config_source: int = wire(INT8, since=1, default=-1, ignorable=True)
    is_sensitive: bool = wire(BOOL)
    synonyms: tuple[ConfigSynonym, ...] = wire(
        Array(ConfigSynonym), since=1, default=(), ignorable=True
    )
    config_type: int = wire(INT8, since=3, default=0, ignorable=True)
    documentation: str | None = wire(
        STRING, since=3, nullable_since=0, default=None, ignorable=True
    )


@message()
class DescribeConfigsResult(Message):
    """The values of one resource."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: tuple[DescribedConfig, ...] = wire(Array(DescribedConfig))


@message(flexible_since=4)
class DescribeConfigsResponse(Message):
    """DescribeConfigs response."""

    throttle_time_ms: int = wire(INT32, default=0)
    results: tuple[DescribeConfigsResult, ...] = wire(Array(DescribeConfigsResult))


DESCRIBE_CONFIGS = Api(32, DescribeConfigsRequest, DescribeConfigsResponse, 1, 4)
INCREMENTAL_ALTER_CONFIGS = Api(
    44, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, 0, 1, is_forwardable=True
)
