"""DescribeLogDirs and AlterReplicaLogDirs: the logs in the directories of log.dirs.

Source: KIP-113, KIP-827, KIP-1066; the rules of a stock broker (`ReplicaManager`).
"""

from collections.abc import Iterable, Iterator
from uuid import UUID

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
from quorum_node.records.metadata.metadata_version import CORDONED_DIRECTORIES_LEVEL
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.data_directories import DataDirectories
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.replica_moves import Move
from quorum_node.server.broker.topic_lookup import look_up
from quorum_node.server.listener.port import InboundRequest


class LogDirsApi:
    """The handler of both APIs. It answers at once, or in pieces if there are many replicas."""

    def __init__(self, replicas: AssignedReplicas, directories: DataDirectories) -> None:
        self._replicas = replicas
        self._directories = directories

    def describe(self, inbound: InboundRequest, body: DescribeLogDirsRequest) -> None:
        """Describe all local replicas, or those that the request names; replicas of other brokers are left out.

        A directory that is offline is described by KAFKA_STORAGE_ERROR alone.
        """
        inbound.use_thread()
        inbound.in_pieces(self._describe(inbound, body))

    def _describe(self, inbound: InboundRequest, body: DescribeLogDirsRequest) -> Iterator[None]:
        wanted: dict[str, set[int]] | None = None
        if body.topics is not None:
            wanted = {}
            for topic in body.topics:
                wanted.setdefault(topic.topic, set()).update(topic.partitions)
                yield
        found: dict[UUID, list[_Described]] = {}
        for replica in tuple(self._replicas):
            name = replica.topic_name
            if wanted is None or replica.key.partition_id in wanted.get(name, ()):
                found.setdefault(replica.directory_id, []).append((name, _described(replica)))
            yield
        for move in tuple(self._replicas.moves):
            name = move.replica.topic_name
            if wanted is None or move.replica.key.partition_id in wanted.get(name, ()):
                found.setdefault(move.directory_id, []).append((name, _copied(move)))
            yield
        image = self._replicas.image
        are_known = image.features.metadata_version >= CORDONED_DIRECTORIES_LEVEL
        cordoned = self._replicas.cordoned_ids(image) if are_known else ()
        online = [
            (
                each.path,
                each.volume_bytes(),
                each.directory_id in cordoned,
                found.get(each.directory_id, ()),
            )
            for each in self._directories.online
        ]
        offline = tuple(
            DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=())
            for path in self._directories.offline
        )
        inbound.reply_made(
            lambda: DescribeLogDirsResponse(
                results=(*(_directory(*each) for each in online), *offline)
            )
        )

    def alter(self, inbound: InboundRequest, body: AlterReplicaLogDirsRequest) -> None:
        """Start moves; a replica that is in the requested directory stays there. DescribeLogDirs shows how far they are."""
        inbound.in_pieces(self._alter(inbound, body))

    def _alter(self, inbound: InboundRequest, body: AlterReplicaLogDirsRequest) -> Iterator[None]:
        by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
        for directory in body.dirs:
            for topic in directory.topics:
                yield
                results = by_topic.setdefault(topic.name, [])
                for index in topic.partitions:
                    error = self._altered(directory.path, topic.name, index)
                    results.append(
                        AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
                    )
                    yield
        inbound.reply_made(
            lambda: AlterReplicaLogDirsResponse(
                results=tuple(
                    AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(each))
                    for name, each in by_topic.items()
                )
            )
        )

    def _altered(self, path: str, name: str, index: int) -> ErrorCode:
        directory = self._directories.at(path)
        if directory is None:
            is_known = path in self._directories.offline
            return ErrorCode.KAFKA_STORAGE_ERROR if is_known else ErrorCode.LOG_DIR_NOT_FOUND
        if directory.directory_id in self._replicas.cordoned_ids(self._replicas.image):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        found = look_up(self._replicas, None, name, index)
        if found == ErrorCode.KAFKA_STORAGE_ERROR:
            return found
        if isinstance(found, ErrorCode) or found.replica is None:
            # The tool asks again when the replica is assigned to this broker.
            self._replicas.prefer(name, index, directory.directory_id)
            return ErrorCode.REPLICA_NOT_AVAILABLE
        self._replicas.moves.request(found.replica, directory.directory_id)
        return ErrorCode.NONE


_Described = tuple[str, DescribeLogDirsPartition]
"""The name of a topic, and one of its partitions."""


def _directory(
    path: str, volume_bytes: tuple[int, int], is_cordoned: bool, replicas: Iterable[_Described]
) -> DescribeLogDirsResult:
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    for name, each in replicas:
        by_topic.setdefault(name, []).append(each)
    total_bytes, usable_bytes = volume_bytes
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE,
        log_dir=path,
        topics=tuple(
            DescribeLogDirsTopic(
                name=name,
                partitions=tuple(sorted(by_topic[name], key=lambda each: each.partition_index)),
            )
            for name in sorted(by_topic)
        ),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
        is_cordoned=is_cordoned,
    )


def _described(replica: HostedReplica) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=replica.key.partition_id,
        partition_size=replica.log.size_bytes,
        offset_lag=max(replica.core.high_watermark - replica.core.end_offset, 0),
        is_future_key=False,
    )


def _copied(move: Move) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=move.replica.key.partition_id,
        partition_size=move.size_bytes,
        offset_lag=move.lag,
        is_future_key=True,
    )
