"""Applies committed metadata to the replicas of this broker.

Owns the set of replicas, and the order in which the changes of an image are applied: stops first, then settings, then leaders and
followers. Does not depend on the request APIs. A replica is created, and its log is opened, when the metadata assigns it to this broker.
Source: the replication design V3, "Broker"; KIP-631; KIP-516.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from uuid import UUID

from quorum_node.broker.assignments import AssignedPartition, assignment_changes, strays
from quorum_node.broker.events import MetadataChanged, ReplicaStopped, StartOffsetMoved
from quorum_node.broker.outputs import AskRange, ProposeIsr
from quorum_node.image.brokers import BrokersImage
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.topics import PartitionKey, TopicsImage
from quorum_node.server.broker.cleaning import Cleaning, HighWatermarks
from quorum_node.server.broker.data_log import DataDirectory
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.fetchers import Fetchers
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.isr_requests import IsrRequests
from quorum_node.server.broker.topic_values import TopicValues
from quorum_node.storage.errors import DiskFull, StorageFailure

_TICK_SECONDS = 0.1
"""Interval between checks of replicas whose requests wait for replication, in seconds. Every replica is checked once in `_LAG_SHARE` of
replica.lag.time.max.ms.
"""
_LAG_SHARE = 0.25
_CHECKPOINT_SECONDS = 5.0
_MAINTENANCE_SECONDS = 60.0
_PRODUCERS_SECONDS = 600.0
"""Interval between two checks of a replica for expired producers, in seconds (a stock broker's producer.id.expiration.check.interval.ms)."""


class AssignedReplicas:
    """The replicas of this broker, and their `ReplicaPort`. Created when the first image is complete."""

    def __init__(
        self,
        broker_id: int,
        directory: DataDirectory,
        values: TopicValues,
        fetchers: Fetchers,
        isr_requests: IsrRequests,
        events: BrokerEvents,
        lag_time_max_ms: int,
        retention_check_ms: int,
        storage_failed: Callable[[StorageFailure | DiskFull], None],
    ) -> None:
        self._storage_failed = storage_failed
        self._broker_id = broker_id
        self._directory = directory
        self._values = values
        self._fetchers = fetchers
        self._isr_requests = isr_requests
        self._events = events
        self._full_tick_seconds = max(_TICK_SECONDS, lag_time_max_ms * _LAG_SHARE / 1000)
        self._loop = asyncio.get_running_loop()
        self._replicas: dict[PartitionKey, HostedReplica] = {}
        self._to_forget: list[PartitionKey] = []
        self._image = ClusterImage()
        self._ticked_at = self._checkpointed_at = self._loop.time()
        self._retained_at = self._maintained_at = self._forgotten_at = self._ticked_at
        self._retention_seconds = retention_check_ms / 1000
        self._maintenance: asyncio.Future[None] | None = None
        self._cleaning = Cleaning(directory, events, storage_failed)
        self._cleaner_values = values.cleaner(self._image.configs)
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None

    # -- queries

    @property
    def image(self) -> ClusterImage:
        """The image that was last applied to the replicas."""
        return self._image

    def replica(self, topic_id: UUID, partition_id: int) -> HostedReplica | None:
        """The replica, if this broker has one."""
        return self._replicas.get(PartitionKey(topic_id, partition_id))

    def __iter__(self) -> Iterator[HostedReplica]:
        return iter(self._replicas.values())

    # -- metadata

    def start(self, image: ClusterImage) -> None:
        """Apply the first image. Logs on the disk that are not assigned to this broker are set aside before any log is opened."""
        found = strays(self._broker_id, self._directory.found(), image.topics)
        for stray in found:
            self._directory.set_aside(stray)
            self._events.set_aside(f"{stray.topic_name}-{stray.partition_id}")
        self.apply(image)
        self._events.opened(len(self._replicas), len(found))
        self._tick()

    def apply(self, image: ClusterImage) -> None:
        """Apply a later image, which may differ from the previous one by any number of changes."""
        before, self._image = self._image, image
        if before.configs is not image.configs:
            self._cleaner_values = self._values.cleaner(image.configs)
            self._settings_changed(image)
        if before.topics is not image.topics:
            self._topics_changed(before.topics, image, _active_brokers(image.brokers))
        if before.brokers is not image.brokers:
            self._brokers_changed(before.brokers, image)

    def close(self) -> None:
        """Stop all replicas. Their logs are closed by the data directory."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._cleaning.close()
        self._fetchers.close()
        self._isr_requests.close()
        for replica in self._replicas.values():
            replica.take(ReplicaStopped(delete=False))
        self._checkpoint()

    def _topics_changed(
        self, before: TopicsImage, image: ClusterImage, active: Mapping[int, int]
    ) -> None:
        changes = assignment_changes(self._broker_id, before, image.topics)
        for key in changes.stopped:
            replica = self._replicas.pop(key, None)
            if replica is not None:
                replica.take(ReplicaStopped(delete=True))
        for assigned in changes.changed:
            replica = self._replicas.get(assigned.key) or self._open(assigned, image)
            replica.take(MetadataChanged(assigned.partition, active))

    def _brokers_changed(self, before: BrokersImage, image: ClusterImage) -> None:
        """Pass a change in the set of brokers that may join an ISR to all leaders, even if their partitions did not change."""
        active = _active_brokers(image.brokers)
        if active == _active_brokers(before):
            return
        for key, replica in self._replicas.items():
            partition = image.topics.partition(*key)
            if partition is not None and replica.is_leader:
                replica.take(MetadataChanged(partition, active))

    def _settings_changed(self, image: ClusterImage) -> None:
        for replica in self._replicas.values():
            settings = self._values.settings(image.configs, replica.topic_name)
            replica.limit(self._values.limits(image.configs, replica.topic_name))
            replica.log.configure(self._values.log_settings(image.configs, replica.topic_name))
            if settings != replica.settings:
                replica.configure(settings)

    def _open(self, assigned: AssignedPartition, image: ClusterImage) -> HostedReplica:
        key, name = assigned.key, assigned.topic_name
        settings = self._values.log_settings(image.configs, name)
        log = self._directory.open(name, key.topic_id, key.partition_id, settings)
        replica = self._replicas[key] = HostedReplica(
            key,
            name,
            self._broker_id,
            log,
            self,
            self._values.settings(image.configs, name),
            self._values.limits(image.configs, name),
        )
        return replica

    # -- timers

    def _tick(self) -> None:
        self._timer = self._loop.call_later(_TICK_SECONDS, self._tick)
        now = self._loop.time()
        everyone = now - self._ticked_at >= self._full_tick_seconds
        for replica in self._replicas.values():
            if everyone or replica.has_waiting_producers:
                replica.tick()
        if everyone:
            self._ticked_at = now
        if now - self._checkpointed_at >= _CHECKPOINT_SECONDS:
            self._checkpointed_at = now
            self._checkpoint()
            self._forget_producers()
        if now - self._retained_at >= self._retention_seconds:
            self._retained_at = now
            self._retain()
        self._cleaning.look(self._cleaner_values, self._compacting)
        if now - self._maintained_at >= _MAINTENANCE_SECONDS and self._maintenance is None:
            self._maintained_at = now
            self._maintenance = self._loop.run_in_executor(None, self._directory.maintain)
            self._maintenance.add_done_callback(self._maintained)

    def _forget_producers(self) -> None:
        """Expire producers. Otherwise, each producer that ever wrote would stay in memory and in every snapshot."""
        now_ms = time.time_ns() // 1_000_000
        if not self._to_forget and self._loop.time() - self._forgotten_at >= _PRODUCERS_SECONDS:
            self._forgotten_at, self._to_forget = self._loop.time(), list(self._replicas)
        # Check a part of the replicas at each checkpoint: checking all of them at once could block the loop.
        some = 1 + len(self._replicas) * _CHECKPOINT_SECONDS / _PRODUCERS_SECONDS
        turn, self._to_forget = self._to_forget[: int(some)], self._to_forget[int(some) :]
        for key in turn:
            replica = self._replicas.get(key)
            if replica is not None:
                replica.forget_producers(now_ms)

    def _compacting(self) -> HighWatermarks:
        return {
            (each.topic_name, each.key.partition_id): each.core.high_watermark
            for each in self._replicas.values()
            if each.log.settings.compacts
        }

    def _retain(self) -> None:
        """Delete old segments of leaders and followers, by the clock of this broker. Uncommitted records are never deleted."""
        now_ms = time.time_ns() // 1_000_000
        try:
            for replica in self._replicas.values():
                start_offset = replica.log.retain(replica.core.high_watermark, now_ms)
                if start_offset is not None and start_offset > replica.core.start_offset:
                    replica.take(StartOffsetMoved(start_offset))
        except (StorageFailure, DiskFull) as failure:
            self._storage_failed(failure)

    def _maintained(self, done: "asyncio.Future[None]") -> None:
        self._maintenance = None
        failure = done.exception()
        if self._closed:
            return  # the logs were closed meanwhile, and closing a log syncs it
        if isinstance(failure, StorageFailure | DiskFull):
            self._storage_failed(failure)
        elif failure is not None:
            raise failure

    def _checkpoint(self) -> None:
        try:
            self._directory.checkpoint(
                (each.topic_name, each.key.partition_id, each.core.high_watermark)
                for each in self._replicas.values()
            )
        except (StorageFailure, DiskFull) as failure:
            self._storage_failed(failure)

    # -- called by the replicas

    def start_fetching(self, replica: HostedReplica, leader_id: int) -> None:
        """See `ReplicaPort`."""
        self._fetchers.start(replica, leader_id)

    def stop_fetching(self, replica: HostedReplica) -> None:
        """See `ReplicaPort`."""
        self._fetchers.stop(replica)

    def may_fetch(self, replica: HostedReplica) -> None:
        """See `ReplicaPort`."""
        self._fetchers.look(replica)

    def ask_range(self, replica: HostedReplica, output: AskRange) -> None:
        """See `ReplicaPort`."""
        self._fetchers.ask_range(replica, output)

    def propose_isr(self, replica: HostedReplica, output: ProposeIsr) -> None:
        """See `ReplicaPort`."""
        self._isr_requests.propose(replica, output)

    def storage_failed(self, failure: StorageFailure | DiskFull) -> None:
        """See `ReplicaPort`."""
        self._storage_failed(failure)

    def maintain_soon(self) -> None:
        """See `ReplicaPort`."""
        self._maintained_at = float("-inf")

    def delete_log(self, replica: HostedReplica) -> None:
        """See `ReplicaPort`."""
        self._directory.delete(replica.topic_name, replica.key.partition_id)


def _active_brokers(brokers: BrokersImage) -> dict[int, int]:
    """Broker id → broker epoch of all brokers that may be in an ISR."""
    return {
        each.broker_id: each.broker_epoch
        for each in brokers.by_id.values()
        if not each.fenced and not each.in_controlled_shutdown
    }
