"""DescribeLogDirs and AlterReplicaLogDirs: the logs in log.dirs, which has only one directory.

Source: KIP-113, KIP-827; the rules of a stock broker (`ReplicaManager`).
"""

from collections.abc import Iterable

from quorum_node.protocol.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from quorum_node.protocol.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.data_log import DataDirectory
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.topic_lookup import look_up


class LogDirsApi:
    """The handler of both APIs. It answers at once."""

    def __init__(self, replicas: AssignedReplicas, directory: DataDirectory) -> None:
        self._replicas = replicas
        self._directory = directory

    def describe(self, body: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        """Describe all local replicas, or those that the request names; replicas of other brokers are left out."""
        wanted = None
        if body.topics is not None:
            wanted = {(each.topic, index) for each in body.topics for index in each.partitions}
        by_topic: dict[str, list[HostedReplica]] = {}
        for replica in self._replicas:
            if wanted is None or (replica.topic_name, replica.key.partition_id) in wanted:
                by_topic.setdefault(replica.topic_name, []).append(replica)
        total_bytes, usable_bytes = self._directory.volume_bytes()
        result = DescribeLogDirsResult(
            error_code=ErrorCode.NONE,
            log_dir=self._directory.path,
            topics=tuple(
                DescribeLogDirsTopic(name=name, partitions=_described(by_topic[name]))
                for name in sorted(by_topic)
            ),
            total_bytes=total_bytes,
            usable_bytes=usable_bytes,
        )
        return DescribeLogDirsResponse(results=(result,))

    def alter(self, body: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
        """Return no error for replicas that are already in the requested directory, else an error: replicas are never moved."""
        by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
        for directory in body.dirs:
            for topic in directory.topics:
                by_topic.setdefault(topic.name, []).extend(
                    AlterReplicaLogDirPartitionResult(
                        partition_index=index,
                        error_code=self._altered(directory.path, topic.name, index),
                    )
                    for index in topic.partitions
                )
        results = tuple(
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(each))
            for name, each in by_topic.items()
        )
        return AlterReplicaLogDirsResponse(results=results)

    def _altered(self, path: str, name: str, index: int) -> ErrorCode:
        if path != self._directory.path:
            return ErrorCode.LOG_DIR_NOT_FOUND
        found = look_up(self._replicas, None, name, index)
        if isinstance(found, ErrorCode) or found.replica is None:
            return ErrorCode.REPLICA_NOT_AVAILABLE
        return ErrorCode.NONE


def _described(replicas: Iterable[HostedReplica]) -> tuple[DescribeLogDirsPartition, ...]:
    return tuple(
        DescribeLogDirsPartition(
            partition_index=each.key.partition_id,
            partition_size=each.log.size_bytes,
            offset_lag=max(each.core.high_watermark - each.core.end_offset, 0),
            is_future_key=False,
        )
        for each in sorted(replicas, key=lambda each: each.key.partition_id)
    )
