"""AlterReplicaLogDirs: assigns replicas to log directories of a broker (KIP-113; as shipped in 4.3,
versions 1-2).
"""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import INT16, INT32, STRING, Array, Message, message, wire


@message()
class AlterReplicaLogDirTopic(Message):
    """Partitions of one topic."""

    name: str = wire(STRING)
    partitions: tuple[int, ...] = wire(Array(INT32))


@message()
class AlterReplicaLogDir(Message):
    """`path`: absolute, one of the broker's log.dirs."""

    path: str = wire(STRING)
    topics: tuple[AlterReplicaLogDirTopic, ...] = wire(Array(AlterReplicaLogDirTopic))


@message(flexible_since=2)
class AlterReplicaLogDirsRequest(Message):
    """AlterReplicaLogDirs request."""

    dirs: tuple[AlterReplicaLogDir, ...] = wire(Array(AlterReplicaLogDir))


@message()
class AlterReplicaLogDirPartitionResult(Message):
    """Result for one replica."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@message()
class AlterReplicaLogDirTopicResult(Message):
    """Results for one topic."""

    topic_name: str = wire(STRING)
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = wire(
        Array(AlterReplicaLogDirPartitionResult)
    )


@message(flexible_since=2)
class AlterReplicaLogDirsResponse(Message):
    """AlterReplicaLogDirs response."""

    throttle_time_ms: int = wire(INT32, default=0)
    results: tuple[AlterReplicaLogDirTopicResult, ...] = wire(Array(AlterReplicaLogDirTopicResult))


ALTER_REPLICA_LOG_DIRS = Api(34, AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, 1, 2)
