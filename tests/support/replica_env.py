"""One replica of a partition; the test controls its time and its metadata.

Owns short functions for events, and selects outputs by type. Must not know which results are correct.
"""

from typing import TypeVar
from uuid import UUID

from quorum_node.broker.batch import Batch
from quorum_node.broker.epoch_history import NO_EPOCH
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import (
    BatchesFetched,
    ConsumerFetched,
    Event,
    FetchPosition,
    FollowerFetched,
    MetadataChanged,
    Produced,
    Ticked,
    Written,
)
from quorum_node.broker.leader import Leader
from quorum_node.broker.log_shape import OpenedLog
from quorum_node.broker.outputs import AppendBatches, Output, ProduceAnswered, ProposeIsr
from quorum_node.broker.partition import PartitionReplica
from quorum_node.broker.settings import PartitionSettings
from quorum_node.image.partition import Partition
from quorum_node.records.metadata import UNASSIGNED

ME, B, C = 1, 2, 3
LAG_MS = 1000.0
Kind = TypeVar("Kind", bound=Output)
_OPENED = OpenedLog()
_SETTINGS = PartitionSettings(min_insync_replicas=1, replica_lag_time_max_ms=LAG_MS)


def partition(
    leader: int, leader_epoch: int, partition_epoch: int, isr: tuple[int, ...] = (ME, B, C)
) -> Partition:
    """Of three replicas."""
    return Partition(
        partition_id=0,
        topic_id=UUID(int=7),
        replicas=(ME, B, C),
        isr=isr,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        directories=(UNASSIGNED,) * 3,
    )


def batch(
    base_offset: int, count: int, leader_epoch: int, producer: int = -1, sequence: int = -1
) -> Batch:
    """With a producer id: of its epoch 0."""
    epoch = 0 if producer >= 0 else -1
    return Batch(
        base_offset, base_offset + count, leader_epoch, 100, None, producer, epoch, sequence
    )


class ReplicaEnv:
    """Broker ME's replica. `active`: broker id → broker epoch."""

    def __init__(
        self, opened: OpenedLog = _OPENED, settings: PartitionSettings = _SETTINGS
    ) -> None:
        self.replica = PartitionReplica(ME, opened, settings)
        self.now_ms = 0.0
        self.active = {ME: 11, B: 12, C: 13}
        self.outputs: list[Output] = []
        self._request_id = 0

    @property
    def leader(self) -> Leader:
        """The role of the replica, which must be leader."""
        assert isinstance(self.replica.role, Leader)
        return self.replica.role

    def step(self, event: Event) -> list[Output]:
        """One event, now."""
        self.outputs = self.replica.step(event, self.now_ms)
        return self.outputs

    def told(
        self,
        leader: int,
        leader_epoch: int,
        partition_epoch: int,
        isr: tuple[int, ...] = (ME, B, C),
    ) -> list[Output]:
        """New metadata."""
        state = partition(leader, leader_epoch, partition_epoch, isr)
        return self.step(MetadataChanged(state, dict(self.active)))

    def produce(
        self, count: int = 1, acks: int = -1, producer: int = -1, sequence: int = -1
    ) -> list[Output]:
        """A batch that is appended to the log."""
        self._request_id += 1
        event = Produced(self._request_id, batch(0, count, -1, producer, sequence), acks, 500.0)
        return self.step(event)

    def write(self) -> list[Output]:
        """The writer has completed all appends."""
        return self.step(Written(self.replica.end_offset))

    def fetched_by(
        self,
        replica_id: int,
        offset: int,
        last_epoch: int | None = None,
        leader_epoch: int | None = None,
        broker_epoch: int | None = None,
        behind_bytes: int = 0,
    ) -> list[Output]:
        """By default a fetch of a follower whose log agrees with this leader's."""
        self._request_id += 1
        starts = [epoch for epoch, start in self.replica.epoch_starts if start < offset]
        known = starts[-1] if starts else NO_EPOCH
        event = FollowerFetched(
            request_id=self._request_id,
            replica_id=replica_id,
            broker_epoch=self.active[replica_id] if broker_epoch is None else broker_epoch,
            leader_epoch=self.replica.leader_epoch if leader_epoch is None else leader_epoch,
            fetch_offset=offset,
            last_fetched_epoch=known if last_epoch is None else last_epoch,
            behind_bytes=behind_bytes,
        )
        return self.step(event)

    def read(
        self,
        offset: int,
        leader_epoch: int = NO_EPOCH,
        last_epoch: int = NO_EPOCH,
        *,
        only_leader: bool = False,
    ) -> list[Output]:
        """A fetch of a consumer."""
        self._request_id += 1
        return self.step(
            ConsumerFetched(
                self._request_id, offset, leader_epoch, last_epoch, only_leader=only_leader
            )
        )

    @property
    def position(self) -> FetchPosition:
        """Of the present fetch."""
        position = self.replica.fetch_position
        assert position is not None
        return position

    def receive(self, *batches: Batch, high_watermark: int = 0) -> list[Output]:
        """The leader's answer to the present fetch."""
        return self.step(BatchesFetched(self.position, batches, high_watermark, 0))

    def wait(self, ms: float) -> list[Output]:
        """Advance the time."""
        self.now_ms += ms
        return self.step(Ticked())

    def all(self, kind: type[Kind]) -> list[Kind]:
        """Outputs of the last step of one type."""
        return [each for each in self.outputs if isinstance(each, kind)]

    def one(self, kind: type[Kind]) -> Kind:
        """The only one."""
        (found,) = self.all(kind)
        return found

    @property
    def errors(self) -> list[BrokerError]:
        """The errors that producers got in the last step."""
        return [each.error for each in self.all(ProduceAnswered)]

    def proposed(self) -> list[int] | None:
        """The ISR that was proposed in the last step."""
        requested = self.all(ProposeIsr)
        return [broker_id for broker_id, _ in requested[-1].members] if requested else None

    @property
    def appended(self) -> list[Batch]:
        """Batches that went to the writer in the last step."""
        return [each for output in self.all(AppendBatches) for each in output.batches]


def leading(
    *,
    isr: tuple[int, ...] = (ME, B, C),
    opened: OpenedLog = _OPENED,
    settings: PartitionSettings = _SETTINGS,
) -> ReplicaEnv:
    """ME leads in leader epoch 5, partition epoch 9."""
    env = ReplicaEnv(opened, settings)
    env.told(ME, 5, 9, isr)
    return env


def following(opened: OpenedLog = _OPENED) -> ReplicaEnv:
    """ME follows B in leader epoch 5, partition epoch 9."""
    env = ReplicaEnv(opened)
    env.told(B, 5, 9)
    return env
