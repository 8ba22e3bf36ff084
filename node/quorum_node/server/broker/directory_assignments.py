"""Reports to the active controller in which log directory each replica is: AssignReplicasToDirs, one request at a time (KIP-858).

Owns which replicas have to be reported: those whose directory in the metadata differs from the actual one. So the report of a replica whose
directory failed meanwhile is sent as well: it tells the controller that the replica is offline. Source: the rules of a stock broker's
AssignmentsManager.
"""

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from uuid import UUID

from quorum_node.broker.assignments import AssignedPartition
from quorum_node.broker.placement import assigned_directory
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.topics import PartitionKey
from quorum_node.protocol.assign_replicas_to_dirs import (
    ASSIGN_REPLICAS_TO_DIRS,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    PlacedDirectory,
    PlacedPartition,
    PlacedTopic,
)
from quorum_node.raft.events import FailureReason
from quorum_node.records.metadata.metadata_version import DIRECTORIES_LEVEL
from quorum_node.schema.schema import Message
from quorum_node.server.broker.controller_channel import ControllerChannel

_MOST_REPLICAS = 2250
"""In one request, as in a stock broker."""
_RETRY_SECONDS = 0.5


class DirectoryAssignments:
    """`own`: (broker id, broker epoch) of this run."""

    def __init__(self, channel: ControllerChannel, own: Callable[[], tuple[int, int]]) -> None:
        self._channel = channel
        self._own = own
        self._loop = asyncio.get_running_loop()
        self._actual: dict[PartitionKey, UUID] = {}
        self._differing: dict[PartitionKey, None] = {}
        """Keys of replicas that have to be reported, in order."""
        self._is_supported = False
        self._in_flight = False
        self._timer: asyncio.Handle | None = None
        self._closed = False

    def placed(self, key: PartitionKey, directory_id: UUID) -> None:
        """The replica is in this directory now. `image_changed` follows, or `moved` is called, if it has to be reported."""
        self._actual[key] = directory_id

    def moved(self, key: PartitionKey, directory_id: UUID) -> None:
        """The replica was moved to this directory."""
        self.placed(key, directory_id)
        self._differing[key] = None
        self._send_soon(0.0)

    def forget(self, key: PartitionKey) -> None:
        """The replica was removed from this broker."""
        self._actual.pop(key, None)
        self._differing.pop(key, None)

    def image_changed(self, image: ClusterImage, changed: Iterable[AssignedPartition]) -> None:
        """Compare the metadata of changed partitions with the actual directories."""
        self._is_supported = image.features.metadata_version >= DIRECTORIES_LEVEL
        broker_id, _ = self._own()
        for each in changed:
            actual = self._actual.get(each.key)
            if actual is None or actual == assigned_directory(broker_id, each.partition):
                self._differing.pop(each.key, None)
            else:
                self._differing[each.key] = None
        self._send_soon(0.0)

    def close(self) -> None:
        """Send no more requests."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    # -- requests

    def _send_soon(self, delay_seconds: float) -> None:
        is_due = self._is_supported and bool(self._differing)
        if is_due and self._timer is None and not self._in_flight and not self._closed:
            self._timer = self._loop.call_later(delay_seconds, self._send)

    def _send(self) -> None:
        self._timer = None
        keys = list(islice(self._differing, _MOST_REPLICAS))
        if not keys or self._closed:
            return
        sent = {key: self._actual[key] for key in keys}
        by_directory: dict[UUID, dict[UUID, list[int]]] = {}
        for key, directory_id in sent.items():
            topics = by_directory.setdefault(directory_id, {})
            topics.setdefault(key.topic_id, []).append(key.partition_id)
        broker_id, broker_epoch = self._own()
        request = AssignReplicasToDirsRequest(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            directories=tuple(
                PlacedDirectory(
                    id=directory_id,
                    topics=tuple(
                        PlacedTopic(
                            topic_id=topic_id,
                            partitions=tuple(PlacedPartition(partition_index=n) for n in numbers),
                        )
                        for topic_id, numbers in topics.items()
                    ),
                )
                for directory_id, topics in by_directory.items()
            ),
        )
        self._in_flight = True
        self._channel.ask(
            ASSIGN_REPLICAS_TO_DIRS, request, lambda outcome: self._answered(sent, outcome)
        )

    def _answered(self, sent: dict[PartitionKey, UUID], outcome: Message | FailureReason) -> None:
        self._in_flight = False
        for key in _accepted(outcome):
            # A replica that was moved meanwhile is reported again.
            if key in sent and self._actual.get(key) == sent[key]:
                self._differing.pop(key, None)
        has_failed = any(key in self._differing for key in sent)
        self._send_soon(_RETRY_SECONDS if has_failed else 0.0)


def _accepted(outcome: Message | FailureReason) -> list[PartitionKey]:
    if not isinstance(outcome, AssignReplicasToDirsResponse) or outcome.error_code:
        return []
    return [
        PartitionKey(topic.topic_id, each.partition_index)
        for directory in outcome.directories
        for topic in directory.topics
        if topic.topic_id is not None
        for each in topic.partitions
        if not each.error_code
    ]
