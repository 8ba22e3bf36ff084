"""AssignReplicasToDirs: a broker reports the log directories of its replicas. PURE.

Owns the checks. A replica in a directory that is not online is unavailable: it leaves the ISR and
loses its leadership.
Source: KIP-858.
"""

from uuid import UUID

from quorum_node.controller.broker_epochs import epoch_problem
from quorum_node.controller.decision import Decision
from quorum_node.controller.directory_ids import is_online
from quorum_node.controller.partition_change import Wanted, change_partition
from quorum_node.controller.partition_rules import circumstances
from quorum_node.controller.view import View
from quorum_node.image.partition import Partition, changed
from quorum_node.image.topics import PartitionKey
from quorum_node.protocol.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    PlacedDirectory,
    PlacedDirectoryResult,
    PlacedPartitionResult,
    PlacedTopic,
    PlacedTopicResult,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import MIGRATING, PartitionChangeRecord
from quorum_node.records.metadata.metadata_version import DIRECTORIES_LEVEL


def assign_replicas_to_dirs(view: View, request: AssignReplicasToDirsRequest) -> Decision:
    """Every partition gets its own result and is changed independently."""
    if view.image.features.metadata_version < DIRECTORIES_LEVEL:
        return _refused(request, ErrorCode.UNSUPPORTED_VERSION)
    problem = epoch_problem(view, request.broker_id, request.broker_epoch)
    if problem is not None:
        return _refused(request, problem)
    assigning = _Assigning(view, request.broker_id)
    directories = tuple(assigning.directory(each) for each in request.directories)
    answer = AssignReplicasToDirsResponse(error_code=ErrorCode.NONE, directories=directories)
    return Decision(tuple(assigning.records), answer, atomic=False)


def refuse_assign_replicas_to_dirs(
    request: AssignReplicasToDirsRequest, error: ErrorCode, text: str
) -> AssignReplicasToDirsResponse:
    """One error for the whole request: the API has no field for a message."""
    return AssignReplicasToDirsResponse(error_code=error)


def _refused(request: AssignReplicasToDirsRequest, error: ErrorCode) -> Decision:
    return Decision(answer=refuse_assign_replicas_to_dirs(request, error, ""))


class _Assigning:
    """One request; a partition that is listed twice is changed twice."""

    def __init__(self, view: View, broker_id: int) -> None:
        self.records: list[PartitionChangeRecord] = []
        self._view = view
        self._broker_id = broker_id
        self._changed: dict[PartitionKey, Partition] = {}

    def directory(self, asked: PlacedDirectory) -> PlacedDirectoryResult:
        directory = asked.id or MIGRATING
        topics = tuple(self._topic(directory, topic) for topic in asked.topics)
        return PlacedDirectoryResult(id=asked.id, topics=topics)

    def _topic(self, directory: UUID, asked: PlacedTopic) -> PlacedTopicResult:
        return PlacedTopicResult(
            topic_id=asked.topic_id,
            partitions=tuple(
                PlacedPartitionResult(
                    partition_index=each.partition_index,
                    error_code=self._assign(directory, asked.topic_id, each.partition_index),
                )
                for each in asked.partitions
            ),
        )

    def _assign(self, directory: UUID, topic_id: UUID | None, partition_id: int) -> ErrorCode:
        topic = self._view.image.topics.get(topic_id) if topic_id is not None else None
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        key = PartitionKey(topic.topic_id, partition_id)
        now = self._changed.get(key) or topic.partitions.get(partition_id)
        if now is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._broker_id not in now.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        broker = self._view.image.brokers.get(self._broker_id)
        assert broker is not None
        online = is_online(directory, broker.log_dirs)
        record = change_partition(
            topic.topic_id,
            partition_id,
            now,
            Wanted(
                directories={self._broker_id: directory},
                isr=None if online else tuple(x for x in now.isr if x != self._broker_id),
            ),
            circumstances(self._view, topic.name, now, gone=-1 if online else self._broker_id),
        )
        if record is not None:
            self.records.append(record)
            self._changed[key] = changed(now, record)
        return ErrorCode.NONE
