"""Events of a partition's replica: the input of `PartitionReplica.step`. PURE.

Owns the event types. Must not know their source: the server, or the simulation.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from quorum_node.broker.batch import Batch
from quorum_node.broker.epoch_history import NO_EPOCH, EpochEnd
from quorum_node.broker.errors import BrokerError, IsrError
from quorum_node.broker.producers import ProducerEntry
from quorum_node.broker.settings import PartitionSettings
from quorum_node.image.partition import Partition


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    """The committed state of the partition, and broker id → broker epoch of all that can be in an ISR."""

    partition: Partition
    active_brokers: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """The topic's or the broker's configuration changed."""

    settings: PartitionSettings


@dataclass(frozen=True, slots=True)
class ReplicaStopped:
    """The replica is no longer assigned to this broker, its topic is deleted, or the broker shuts down."""

    delete: bool


@dataclass(frozen=True, slots=True)
class Produced:
    """One valid batch of a produce request. `acks`: -1 (all), 0 or 1.

    `guard`: for the first batch of a transaction, after the coordinator has confirmed that the partition is part of
    it.
    """

    request_id: int
    batch: Batch
    acks: int
    timeout_ms: float
    guard: int = 0


@dataclass(frozen=True, slots=True)
class FollowerFetched:
    """A follower fetches from `fetch_offset`: it has written everything before.

    `leader_epoch` and `last_fetched_epoch` are NO_EPOCH if not sent, and so is `broker_epoch` (NO_BROKER_EPOCH): old versions
    of Fetch do not have them. `behind_bytes`: size of the leader's log from `fetch_offset` on. `log_start_offset`: start of
    its log, -1 if not sent.
    """

    request_id: int
    replica_id: int
    broker_epoch: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    behind_bytes: int = 0
    log_start_offset: int = -1


@dataclass(frozen=True, slots=True)
class ConsumerFetched:
    """A consumer fetches from `fetch_offset`. `leader_epoch` and `last_fetched_epoch`: NO_EPOCH if not sent.

    `only_leader`: it must not be served by a follower, because its version of Fetch is older than KIP-392.
    """

    request_id: int
    fetch_offset: int
    leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    only_leader: bool = False


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """Position of a fetch: everything before `fetch_offset` is written here, the last of it in `last_fetched_epoch`."""

    leader_id: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int


@dataclass(frozen=True, slots=True)
class BatchesFetched:
    """The leader's response to the fetch at `position`; possibly without batches."""

    position: FetchPosition
    batches: tuple[Batch, ...]
    high_watermark: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class LogDiverged:
    """The leader does not have the record before the offset of `position`. `leader`: the newest epoch that may be common."""

    position: FetchPosition
    leader: EpochEnd


@dataclass(frozen=True, slots=True)
class FetchRefused:
    """The leader answered the fetch at `position` with an error."""

    position: FetchPosition
    error: BrokerError


@dataclass(frozen=True, slots=True)
class RangeAnswered:
    """Start and end of the leader's log, requested after OFFSET_OUT_OF_RANGE."""

    leader_epoch: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Written:
    """All appends below `end_offset` are written."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class Truncated:
    """A TruncateLog was executed; always the next event after it. `producers`: rebuilt from the remaining log."""

    producers: tuple[ProducerEntry, ...]


@dataclass(frozen=True, slots=True)
class StartOffsetMoved:
    """Retention or DeleteRecords removed records before `start_offset`."""

    start_offset: int


@dataclass(frozen=True, slots=True)
class IsrTaken:
    """The controller accepted the proposal `proposal_id`. `partition_epoch`: of the partition afterwards."""

    proposal_id: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IsrRefused:
    """The controller refused the proposal, or the result is unknown."""

    proposal_id: int
    error: IsrError


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed: sent at least twice in replica.lag.time.max.ms, and more often while requests wait."""


@dataclass(frozen=True, slots=True)
class StorageFailed:
    """The log directory failed: this replica can't be read or written any more."""


Event = (
    MetadataChanged
    | SettingsChanged
    | ReplicaStopped
    | Produced
    | FollowerFetched
    | ConsumerFetched
    | BatchesFetched
    | LogDiverged
    | FetchRefused
    | RangeAnswered
    | Written
    | Truncated
    | StartOffsetMoved
    | IsrTaken
    | IsrRefused
    | Ticked
    | StorageFailed
)
