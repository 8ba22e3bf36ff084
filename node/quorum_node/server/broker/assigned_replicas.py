"""Applies committed metadata to the replicas of this broker.

Owns the set of replicas, and the order in which the changes of an image are applied: stops first, then settings, then leaders and
followers. Does not depend on the request APIs. A replica is created, and its log is opened, when the metadata assigns it to this broker.
Source: the replication design V3, "Broker"; KIP-631; KIP-516.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from uuid import UUID

from quorum_node.broker.assignments import (
    AssignedPartition,
    assignment_changes,
)
from quorum_node.broker.epoch_history import NO_EPOCH
from quorum_node.broker.events import MetadataChanged, ReplicaStopped
from quorum_node.broker.outputs import AskRange, ProposeIsr
from quorum_node.broker.placement import AmbiguousReplica, Offline, directory_of_replica
from quorum_node.broker.replication_quota import Throttled
from quorum_node.image.brokers import BrokersImage
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.configs import ConfigsImage
from quorum_node.image.topics import PartitionKey, TopicsImage
from quorum_node.records.metadata import LOST
from quorum_node.server.broker.data_directories import DataDirectories
from quorum_node.server.broker.data_log import DataLog
from quorum_node.server.broker.directory_assignments import DirectoryAssignments
from quorum_node.server.broker.directory_threads import DirectoryThreads, Failure
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.fetchers import Fetchers
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.isr_requests import IsrRequests
from quorum_node.server.broker.live_replicas import (
    active_brokers,
    eligible_brokers,
    log_directories,
)
from quorum_node.server.broker.log_deletions import LogDeletions
from quorum_node.server.broker.log_openings import LogOpenings, Opening
from quorum_node.server.broker.replica_moves import ReplicaMoves
from quorum_node.server.broker.replica_start import Found, ReplicaStart, StartEnded
from quorum_node.server.broker.replica_stops import ReplicaStops
from quorum_node.server.broker.replica_timers import Intervals, ReplicaTimers
from quorum_node.server.broker.replica_turns import ReplicaTurns
from quorum_node.server.broker.replication_throttles import ReplicationThrottles
from quorum_node.server.broker.topic_values import TopicSettings, TopicValues
from quorum_node.storage.errors import DiskFull, StorageFailure

_MOST_PREFERRED = 10_000
"""Maximum number of preferred directories of replicas that are not assigned to this broker; the oldest ones are forgotten."""


class AssignedReplicas:
    """The replicas of this broker, and their `ReplicaPort`. Created when the first image is complete."""

    def __init__(
        self,
        broker_id: int,
        directories: DataDirectories,
        values: TopicValues,
        fetchers: Fetchers,
        isr_requests: IsrRequests,
        assignments: DirectoryAssignments,
        events: BrokerEvents,
        intervals: Intervals,
        threads: DirectoryThreads | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._directories = directories
        self._assignments = assignments
        self._values = values
        self._fetchers = fetchers
        self._isr_requests = isr_requests
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._replicas: dict[PartitionKey, HostedReplica] = {}
        self._offline: set[PartitionKey] = set()
        self._unusable: dict[PartitionKey, UUID] = {}
        """Offline replicas whose log is open, but has later leader epochs than the metadata: the directories."""
        self._found: dict[tuple[str, int], UUID] = {}
        self._log_counts = Counter[UUID]()
        """By directory: logs of replicas, logs that are being opened, and logs that were found at the start."""
        self._preferred: dict[tuple[str, int], UUID] = {}
        self._to_forget: list[PartitionKey] = []
        self._image = ClusterImage()
        self._deletions = LogDeletions(self._log_deleted)
        self._turns = ReplicaTurns(self._change_later, self._changed_later)
        self._stops = ReplicaStops(self._replica_stopped)
        self._threads = threads or DirectoryThreads()
        self._threads.watch(self._results_taken)
        self._timers = ReplicaTimers(
            self._replicas,
            directories,
            self._threads,
            values.cleaner(self._image.configs),
            intervals,
            events,
        )
        self._openings = LogOpenings(self._threads, self._log_opened)
        self._start: ReplicaStart | None = None
        self._has_opened = False
        self.moves = ReplicaMoves(
            directories, self._replicas.get, self._moved, self._deletions, events
        )
        self._watchers: list[Callable[[], None]] = []
        self._is_started = False
        self.throttles = ReplicationThrottles(self._loop.time, self._is_in_sync)
        fetchers.throttle(self.throttles)
        directories.watch(self._directory_failed)

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

    def is_offline(self, topic_id: UUID, partition_id: int) -> bool:
        """Whether this broker has the replica in a directory that is offline."""
        return PartitionKey(topic_id, partition_id) in self._offline

    def may_lead(self, topic_id: UUID, partition_id: int) -> bool:
        """Whether requests to the leader are answered by the replica, if the metadata names this broker: not before its log is open.

        Of an offline replica they get another error. May be called on any thread.
        """
        replica = self.replica(topic_id, partition_id)
        return self.is_offline(topic_id, partition_id) or (
            replica is not None and replica.is_leader
        )

    def cordoned_ids(self, image: ClusterImage) -> tuple[UUID, ...]:
        """The online directories that get no new replicas (KIP-1066)."""
        return self._directories.cordoned_ids(self._values.cordoned(image.configs))

    def prefer(self, topic_name: str, partition_id: int, directory_id: UUID) -> None:
        """Create the log in this directory, if the replica is assigned to this broker later (KIP-113)."""
        if len(self._preferred) >= _MOST_PREFERRED:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[topic_name, partition_id] = directory_id

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` when replicas were opened or changed later than their metadata was applied."""
        self._watchers.append(changed)

    # -- metadata

    def start(self, image: ClusterImage, ended: StartEnded) -> None:
        """Begin to open all logs, and to apply the first image. A later one may be applied when `ended` was called."""
        self._start = ReplicaStart(
            self._broker_id,
            self._directories,
            self._threads,
            self._events,
            lambda found: self._open_all(found, image),
            lambda: (len(self._replicas), len(self._openings) + len(self._turns)),
            partial(self._start_ended, ended),
        )
        self._start.begin(image.topics)

    def _open_all(self, found: Found, image: ClusterImage) -> None:
        """Nothing but the logs of this broker is left in the directories."""
        self._found = dict(found)
        self._log_counts = Counter(self._found.values())
        self.apply(image)
        self._timers.begin()

    def _start_ended(self, ended: StartEnded, ambiguous: AmbiguousReplica | None) -> None:
        self._is_started = True
        ended(ambiguous)

    def apply(self, image: ClusterImage) -> None:
        """Apply a later image, which may differ from the previous one by any number of changes."""
        before, self._image = self._image, image
        if before.configs is not image.configs:
            self._timers.configure(self._values.cleaner(image.configs))
            self._settings_changed(before.configs, image)
        if before.topics is not image.topics:
            self._topics_changed(before.topics, image, active_brokers(image.brokers))
        if before.brokers is not image.brokers:
            self._brokers_changed(before.brokers, image)

    def close(self) -> None:
        """Stop all replicas. Their logs are closed by the data directory."""
        self._timers.stop()
        self._deletions.close()
        self._turns.close()
        self._stops.close()
        if self._start is not None:
            self._start.close()
        self.moves.close()
        self._fetchers.close()
        self._isr_requests.close()
        self._assignments.close()
        for replica in self._replicas.values():
            replica.take(ReplicaStopped(delete=False))
        self._threads.close()
        for replica in self._replicas.values():
            replica.write_epochs()
        self._timers.checkpoint_last()

    def _topics_changed(
        self, before: TopicsImage, image: ClusterImage, active: Mapping[int, int]
    ) -> None:
        changes = assignment_changes(self._broker_id, before, image.topics)
        for key in changes.stopped:
            self._stop_opening(key, before)
            self._drop_unusable(key, before)
            self._offline.discard(key)
            self._assignments.forget(key)
            self._turns.forget(key)
            self._timers.syncs.forget(key)
            replica = self._replicas.pop(key, None)
            if replica is not None:
                self._log_counts[replica.directory_id] -= 1
                self._stops.add(replica)
        self._stops.begin()
        for assigned in changes.changed:
            if self._turns.may_change_now(assigned.key):
                self._replica_changed(assigned, image, active)
        self._assignments.image_changed(image, changes.changed)

    def _replica_changed(
        self, assigned: AssignedPartition, image: ClusterImage, active: Mapping[int, int]
    ) -> None:
        replica = self._replicas.get(assigned.key)
        if replica is None:
            self._open(assigned, image)
        else:
            eligible = eligible_brokers(assigned.partition, image.brokers, active)
            replica.take(MetadataChanged(assigned.partition, eligible))

    def _brokers_changed(self, before: BrokersImage, image: ClusterImage) -> None:
        """Pass a change in the set of brokers that may join an ISR to all leaders, even if their partitions did not change."""
        active = active_brokers(image.brokers)
        has_same_directories = log_directories(image.brokers) == log_directories(before)
        if active == active_brokers(before) and has_same_directories:
            return
        for key, replica in self._replicas.items():
            partition = image.topics.partition(*key)
            if partition is None or not replica.is_leader or not self._turns.may_change_now(key):
                continue
            eligible = eligible_brokers(partition, image.brokers, active)
            replica.take(MetadataChanged(partition, eligible))

    def _throttled(self, image: ClusterImage, name: str, key: PartitionKey) -> Throttled:
        return self._values.throttled(image.configs, name, key.partition_id)

    def _is_in_sync(self, replica: HostedReplica) -> bool:
        partition = self._image.topics.partition(*replica.key)
        return partition is not None and self._broker_id in partition.isr

    def _settings_changed(self, before: ConfigsImage, image: ClusterImage) -> None:
        """Only of topics whose values may have changed: with thousands of replicas, all of them would hold the loop."""
        configs, values = image.configs, self._values
        rates = values.rates(configs)
        self.throttles.limit(rates.leader, rates.follower)
        self.moves.limit(rates.moves)
        found: dict[str, TopicSettings | None] = {}
        for replica in self._replicas.values():
            name = replica.topic_name
            if name not in found:
                is_same = values.are_same(before, configs, name)
                found[name] = None if is_same else values.of_topic(configs, name)
            topic = found[name]
            if topic is None:
                continue
            replica.limit(topic.limits)
            replica.throttle(self._throttled(image, name, replica.key))
            replica.log.configure(topic.log)
            if topic.replication != replica.settings:
                replica.configure(topic.replication)

    def _open(self, assigned: AssignedPartition, image: ClusterImage) -> None:
        """Begin to open or create the log, unless the replica is offline. `_log_opened` follows."""
        key, name = assigned.key, assigned.topic_name
        log_counts = {each: self._log_counts[each] for each in self._directories.online_ids}
        # Without any directory online the process is about to end. `_log_opened`, `_log_deleted` and `_replica_stopped` go on with what waits.
        is_waiting = self._deletions.is_running(name, key.partition_id)
        is_waiting |= self._openings.is_running(name, key.partition_id)
        is_waiting |= self._stops.is_waiting(name, key.partition_id)
        if key in self._offline or not log_counts or is_waiting:
            return
        replica = (name, key.partition_id)
        found = self._found.pop(replica, None)
        place = directory_of_replica(
            self._broker_id,
            assigned.partition,
            found,
            log_counts,
            is_new=self._is_started,
            has_offline=bool(self._directories.offline),
            preferred=self._preferred.pop(replica, None),
            cordoned=self.cordoned_ids(image),
        )
        if isinstance(place, Offline):
            self._events.replica_offline(f"{name}-{key.partition_id}")
            self._note_offline(key, place.directory_id)
            return
        directory = self._directories.get(place)
        if directory is None:
            # It failed meanwhile: another log in it could not be opened, or a thread that syncs has noticed.
            self._note_offline(key, place)
            return
        settings = self._values.log_settings(image.configs, name)
        if found is None:
            self._log_counts[place] += 1  # one that was found is counted already
        self._openings.begin(directory, key, name, settings, exists=found is not None)

    def _stop_opening(self, key: PartitionKey, image: TopicsImage) -> None:
        topic = image.get(key.topic_id)
        assert topic is not None, "a replica that stops had a topic"
        self._openings.stop(key, topic.name)

    def _drop_unusable(self, key: PartitionKey, image: TopicsImage) -> None:
        directory = self._directories.get(self._unusable.pop(key, None))
        topic = image.get(key.topic_id)
        if directory is not None and topic is not None:
            self._log_counts[directory.directory_id] -= 1
            self._deletions.delete(directory, topic.name, key.partition_id)

    def _log_opened(self, opening: Opening, log: DataLog | Failure) -> None:
        """Apply the present metadata to a replica whose log is open now."""
        key, name, directory_id = opening.key, opening.topic_name, opening.directory_id
        directory = self._directories.get(directory_id)
        if opening.is_stopped:
            self._log_counts[directory_id] -= 1
            if directory is None:
                self._log_deleted(name, key.partition_id)
            else:
                self._deletions.delete(directory, name, key.partition_id)
        elif directory is None or isinstance(log, StorageFailure | DiskFull):
            self._note_offline(key, directory_id)
            self._change_later(key)
        elif self._has_later_epochs(opening, log):
            self._unusable[key] = directory_id
            self._note_offline(key, LOST)
            self._change_later(key)
        else:
            self._host(opening, log)
            self._change_later(key)
        self._has_opened = True

    def _has_later_epochs(self, opening: Opening, log: DataLog) -> bool:
        """Whether the metadata was restored without its newest changes.

        In the epochs that it gives again there would be other records than in this log. A stock replica goes on: its leader forgets the
        later epochs, and its followers are refused for good, or take other records for equal ones.
        """
        partition = self._image.topics.partition(*opening.key)
        latest = max((epoch for epoch, _ in log.opened().epoch_starts), default=NO_EPOCH)
        if partition is None or latest <= partition.leader_epoch:
            return False
        name = f"{opening.topic_name}-{opening.key.partition_id}"
        self._events.epochs_went_back(name, latest, partition.leader_epoch)
        return True

    def _results_taken(self) -> None:
        if self._has_opened:
            self._has_opened = False
            self._changed_later()

    def _host(self, opening: Opening, log: DataLog) -> None:
        key, name, configs = opening.key, opening.topic_name, self._image.configs
        log.configure(self._values.log_settings(configs, name))
        self._assignments.placed(key, opening.directory_id)
        self._timers.syncs.opened(key)
        self._replicas[key] = HostedReplica(
            key,
            name,
            self._broker_id,
            opening.directory_id,
            log,
            self,
            self._values.settings(configs, name),
            self._values.limits(configs, name),
            self._throttled(self._image, name, key),
        )

    def _note_offline(self, key: PartitionKey, directory_id: UUID) -> None:
        self._offline.add(key)
        self._assignments.placed(key, directory_id)

    def _moved(self, replica: HostedReplica, before: UUID) -> None:
        self._log_counts[before] -= 1
        self._log_counts[replica.directory_id] += 1
        self._assignments.moved(replica.key, replica.directory_id)

    def _directory_failed(self, directory_id: UUID) -> None:
        """Take the replicas in a failed directory offline. They stay so in this process; the metadata moves their leaderships."""
        for key, replica in list(self._replicas.items()):
            if replica.directory_id == directory_id:
                del self._replicas[key]
                self._timers.syncs.forget(key)
                self._note_offline(key, directory_id)
                replica.fail()

    # -- called by the replicas

    def start_fetching(self, replica: HostedReplica, leader_id: int) -> None:
        """See `ReplicaPort`."""
        self._fetchers.start(replica, leader_id)

    def stop_fetching(self, replica: HostedReplica) -> None:
        """See `ReplicaPort`."""
        self._fetchers.stop(replica)

    def may_fetch(self, replica: HostedReplica) -> None:
        """See `ReplicaPort`."""
        self._fetchers.fetch_soon(replica)

    def ask_range(self, replica: HostedReplica, output: AskRange) -> None:
        """See `ReplicaPort`."""
        self._fetchers.ask_range(replica, output)

    def propose_isr(self, replica: HostedReplica, output: ProposeIsr) -> None:
        """See `ReplicaPort`."""
        self._isr_requests.propose(replica, output)

    def sync(self, replica: HostedReplica, *, again: bool = False) -> None:
        """See `ReplicaPort`."""
        self._timers.syncs.sync(replica, again=again)

    def write_epochs(self, replica: HostedReplica) -> None:
        """See `ReplicaPort`. A failure takes the directory offline, and with it the replica."""
        self._threads.run(replica.directory_id, replica.log.write_epochs, lambda _: None)

    def maintain_soon(self) -> None:
        """See `ReplicaPort`."""
        self._timers.maintain_soon()

    def delete_log(self, replica: HostedReplica) -> None:
        """See `ReplicaPort`."""
        directory = self._directories.get(replica.directory_id)
        if directory is not None:
            self._deletions.delete(directory, replica.topic_name, replica.key.partition_id)

    def _replica_stopped(self, replica: HostedReplica) -> None:
        """Without a deletion of its log, whose directory is offline, none will end."""
        name, partition_id = replica.topic_name, replica.key.partition_id
        if not self._deletions.is_running(name, partition_id):
            self._log_deleted(name, partition_id)

    def _log_deleted(self, topic_name: str, partition_id: int) -> None:
        """Open the log of a topic that was created again meanwhile, or of a replica that was added again."""
        topic = self._image.topics.named(topic_name)
        if topic is not None and self.replica(topic.topic_id, partition_id) is None:
            self._change_later(PartitionKey(topic.topic_id, partition_id))

    def _change_later(self, key: PartitionKey) -> None:
        """Apply the present metadata to a replica, if it is still assigned to this broker."""
        image = self._image
        topic = image.topics.get(key.topic_id)
        partition = image.topics.partition(*key)
        if topic is None or partition is None or self._broker_id not in partition.replicas:
            return
        assigned = AssignedPartition(key, topic.name, partition)
        self._replica_changed(assigned, image, active_brokers(image.brokers))
        self._assignments.image_changed(image, [assigned])

    def _changed_later(self) -> None:
        for changed in self._watchers:
            changed()
        if self._start is not None:
            self._start.openings_changed()
