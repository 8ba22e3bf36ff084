"""DescribeLogDirs: the replicas in a broker's directories (KIP-113, KIP-827; as shipped in 4.3,
versions 1-5).
"""

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


@message()
class DescribableLogDirTopic(Message):
    """Partitions of one topic."""

    topic: str = wire(STRING)
    partitions: tuple[int, ...] = wire(Array(INT32))


@message(flexible_since=2)
class DescribeLogDirsRequest(Message):
    """DescribeLogDirs request; without `topics`, all of them."""

    topics: tuple[DescribableLogDirTopic, ...] | None = wire(
        Array(DescribableLogDirTopic), nullable_since=0
    )


@message()
class DescribeLogDirsPartition(Message):
    """`offset_lag`: how far the log's end is behind the high watermark; `is_future_key`: it is being moved there."""

    partition_index: int = wire(INT32)
    partition_size: int = wire(INT64)
    offset_lag: int = wire(INT64)
    is_future_key: bool = wire(BOOL)


@message()
class DescribeLogDirsTopic(Message):
    """The replicas of one topic in a directory."""

    name: str = wire(STRING)
    partitions: tuple[DescribeLogDirsPartition, ...] = wire(Array(DescribeLogDirsPartition))


@message()
class DescribeLogDirsResult(Message):
    """One directory; sizes are those of its volume, -1 where they are unknown."""

    error_code: int = wire(INT16)
    log_dir: str = wire(STRING)
    topics: tuple[DescribeLogDirsTopic, ...] = wire(Array(DescribeLogDirsTopic))
    total_bytes: int = wire(INT64, since=4, default=-1, ignorable=True)
    usable_bytes: int = wire(INT64, since=4, default=-1, ignorable=True)
    is_cordoned: bool = wire(BOOL, since=5, default=False, ignorable=True)


@message(flexible_since=2)
class DescribeLogDirsResponse(Message):
    """DescribeLogDirs response."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, since=3, default=0, ignorable=True)
    results: tuple[DescribeLogDirsResult, ...] = wire(Array(DescribeLogDirsResult))


DESCRIBE_LOG_DIRS = Api(35, DescribeLogDirsRequest, DescribeLogDirsResponse, 1, 5)
