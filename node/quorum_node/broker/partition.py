"""A replica of a partition on one broker: the entry point of the data path's core. PURE.

Owns its role, which only newer metadata changes. Must not know clocks, disks or connections: `step` takes one event
and returns outputs, in order. Times are monotonic.
Source: the replication design V3, "Broker", becomeLeader, becomeFollower and stopReplica.
"""

from quorum_node.broker import fetch_serving
from quorum_node.broker.batch import Batch
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import (
    BatchesFetched,
    ConsumerFetched,
    Event,
    FetchPosition,
    FetchRefused,
    FollowerFetched,
    IsrRefused,
    IsrTaken,
    LogDiverged,
    MetadataChanged,
    Produced,
    RangeAnswered,
    ReplicaStopped,
    SettingsChanged,
    StartOffsetMoved,
    StorageFailed,
    Ticked,
    Truncated,
    Written,
)
from quorum_node.broker.follower import Follower
from quorum_node.broker.leader import Leader
from quorum_node.broker.log_shape import OpenedLog
from quorum_node.broker.outputs import (
    DeleteLog,
    Output,
    ProduceAnswered,
    ReadableMoved,
    RefuseFetch,
    SaveEpochs,
    StopFetching,
)
from quorum_node.broker.producers import ProducerEntry
from quorum_node.broker.replica_state import ReplicaState
from quorum_node.broker.settings import PartitionSettings
from quorum_node.image.partition import Partition


class PartitionReplica:
    """`role` is None before the first metadata, after a stop and after a storage failure."""

    __slots__ = ("_ended", "_state", "role")

    def __init__(self, broker_id: int, opened: OpenedLog, settings: PartitionSettings) -> None:
        self._state = ReplicaState(broker_id, opened, settings)
        self._ended: BrokerError | None = None
        self.role: Leader | Follower | None = None

    # -- state

    @property
    def leader_epoch(self) -> int:
        """Leader epoch of the newest metadata; -1 before the first."""
        return self._state.leader_epoch

    @property
    def partition_epoch(self) -> int:
        """Partition epoch of the newest metadata; -1 before the first."""
        return self._state.partition_epoch

    @property
    def high_watermark(self) -> int:
        """The high watermark, for replication-offset-checkpoint and for consumers."""
        return self._state.log.high_watermark

    @property
    def start_offset(self) -> int:
        """First offset of the log."""
        return self._state.log.start_offset

    @property
    def end_offset(self) -> int:
        """End of the last batch, written or not."""
        return self._state.log.end_offset

    @property
    def written_offset(self) -> int:
        """End of the last written batch."""
        return self._state.log.written_offset

    @property
    def epoch_starts(self) -> tuple[tuple[int, int], ...]:
        """Leader epochs and their start offsets, for leader-epoch-checkpoint."""
        return self._state.log.epochs.starts

    @property
    def fetch_position(self) -> FetchPosition | None:
        """The next fetch; None if there is none now."""
        return self.role.fetch_position if isinstance(self.role, Follower) else None

    @property
    def asks_range(self) -> bool:
        """Whether an AskRange has no response yet, so that it has to be repeated after a while."""
        return isinstance(self.role, Follower) and self.role.asks_range

    @property
    def low_watermark(self) -> int | None:
        """See `Leader`; None if this replica is not the leader."""
        return self.role.low_watermark if isinstance(self.role, Leader) else None

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """See `ProducerStates`."""
        return self._state.producers.has_open_transaction(producer_id, producer_epoch)

    def guard(self, batch: Batch, now_ms: int, *, adds: bool) -> int:
        """See `ProducerStates`."""
        return self._state.producers.guard(batch, now_ms, adds=adds)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """See `ProducerStates`."""
        self._state.producers.expire(now_ms, expiration_ms)

    def producers(self) -> tuple[ProducerEntry, ...]:
        """State of producers, for a snapshot."""
        return self._state.producers.snapshot()

    def latest_offset(self) -> int | BrokerError:
        """Start position of a consumer that starts at the end. On a new leader it may be unknown yet."""
        if not isinstance(self.role, Leader):
            return self._ended or BrokerError.NOT_LEADER_OR_FOLLOWER
        if self._state.log.high_watermark < self.role.epoch_start_offset:
            return BrokerError.OFFSET_NOT_AVAILABLE
        return self._state.log.high_watermark

    # -- events

    def step(self, event: Event, now_ms: float) -> list[Output]:
        """Handle one event; returns the outputs, in order."""
        if self._ended is not None:
            self._refuse(event, self._ended)
        elif isinstance(event, ReplicaStopped):
            self._stop(event)
        elif isinstance(event, StorageFailed):
            self._end(BrokerError.KAFKA_STORAGE_ERROR)
        elif isinstance(event, MetadataChanged):
            self._metadata_changed(event, now_ms)
        elif isinstance(event, SettingsChanged):
            self._state.settings = event.settings
            if isinstance(self.role, Leader):
                self.role.advance(now_ms)
        elif isinstance(event, Written):
            self._written(event, now_ms)
        elif isinstance(event, StartOffsetMoved):
            self._start_moved(event)
        elif isinstance(self.role, Leader):
            self._lead(self.role, event, now_ms)
        elif isinstance(self.role, Follower):
            self._follow(self.role, event)
        else:
            self._refuse(event, BrokerError.NOT_LEADER_OR_FOLLOWER)
        outputs, self._state.outputs = self._state.outputs, []
        return outputs

    def _lead(self, leader: Leader, event: Event, now_ms: float) -> None:
        match event:
            case Produced():
                leader.produce(event, now_ms)
            case FollowerFetched():
                leader.follower_fetched(event, now_ms)
            case ConsumerFetched():
                leader.consumer_fetched(event)
            case IsrTaken():
                leader.isr_taken(event, now_ms)
            case IsrRefused():
                leader.isr_refused(event, now_ms)
            case Ticked():
                leader.ticked(now_ms)
            case _:
                """A response to an earlier follower role of this replica."""

    def _follow(self, follower: Follower, event: Event) -> None:
        match event:
            case BatchesFetched():
                follower.batches_fetched(event)
            case LogDiverged():
                follower.diverged(event)
            case FetchRefused():
                follower.refused(event)
            case RangeAnswered():
                follower.range_answered(event)
            case Truncated():
                follower.truncated(event)
            case ConsumerFetched() if not event.only_leader:
                self._state.emit(fetch_serving.for_consumer(self._state, event))
            case ConsumerFetched() | FollowerFetched():
                self._state.emit(fetch_serving.refused_by_follower(self._state, event))
            case _:
                self._refuse(event, BrokerError.NOT_LEADER_OR_FOLLOWER)

    def _metadata_changed(self, event: MetadataChanged, now_ms: float) -> None:
        """Metadata that is not newer than the applied one is ignored."""
        state, partition = self._state, event.partition
        if partition.partition_epoch < state.partition_epoch:
            return
        assert partition.leader_epoch >= state.leader_epoch, (
            "leader epochs rise with the partition's"
        )
        state.active_brokers = event.active_brokers
        is_new_epoch = partition.leader_epoch > state.leader_epoch
        state.partition_epoch = partition.partition_epoch
        state.leader_epoch = partition.leader_epoch
        state.replicas = partition.replicas
        if not is_new_epoch:
            if isinstance(self.role, Leader):
                self.role.metadata_changed(partition, now_ms)
            return
        self._begin_role(partition, now_ms)
        state.emit(ReadableMoved())

    def _begin_role(self, partition: Partition, now_ms: float) -> None:
        state, before = self._state, self.role
        if partition.leader == state.broker_id and isinstance(before, Leader):
            self.role = before.elected_again(partition, now_ms)
        elif partition.leader == state.broker_id:
            if isinstance(before, Follower):
                state.emit(StopFetching())
            self.role = Leader(state, partition, now_ms)
        else:
            if isinstance(before, Leader):
                before.resign(BrokerError.NOT_LEADER_OR_FOLLOWER)
            self.role = Follower(state, partition)

    def _written(self, event: Written, now_ms: float) -> None:
        self._state.log.written(event.end_offset)
        if isinstance(self.role, Leader):
            self.role.written(now_ms)

    def _start_moved(self, event: StartOffsetMoved) -> None:
        """Retention never exceeds the high watermark."""
        assert event.start_offset <= self._state.log.high_watermark, (
            "only committed records are deleted"
        )
        self._state.log.begin_at(event.start_offset)
        self._state.emit(SaveEpochs(self._state.log.epochs.starts))

    def _stop(self, event: ReplicaStopped) -> None:
        self._end(BrokerError.NOT_LEADER_OR_FOLLOWER)
        if event.delete:
            self._ended = BrokerError.UNKNOWN_TOPIC_OR_PARTITION
            self._state.emit(DeleteLog())

    def _end(self, error: BrokerError) -> None:
        """End the present role."""
        if isinstance(self.role, Leader):
            self.role.resign(error)
        else:
            self._state.emit(StopFetching())
        self._state.emit(ReadableMoved())
        self.role, self._ended = None, error

    def _refuse(self, event: Event, error: BrokerError) -> None:
        """Fail waiting and new requests."""
        if isinstance(event, Produced):
            self._state.emit(ProduceAnswered(event.request_id, error))
        elif isinstance(event, FollowerFetched | ConsumerFetched):
            self._state.emit(RefuseFetch(event.request_id, error))
