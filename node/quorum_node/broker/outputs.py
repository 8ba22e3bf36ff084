"""What a replica of a partition wants done: the output of `PartitionReplica.step`, to be executed strictly in order. PURE.

Owns the output types. Must not know who executes them.
"""

from dataclasses import dataclass

from quorum_node.broker.batch import Batch
from quorum_node.broker.epoch_history import EpochEnd
from quorum_node.broker.errors import BrokerError


@dataclass(frozen=True, slots=True)
class AppendBatches:
    """Hand the batches to the writer; Written follows."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class TruncateLog:
    """Drop everything from `end_offset` on, at once; Truncated is the next event."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class RestartLog:
    """Drop everything; the log goes on at `start_offset`, which is behind its end. Truncated is the next event."""

    start_offset: int


@dataclass(frozen=True, slots=True)
class DeleteBefore:
    """The leader's log begins at `start_offset`: older segments can go."""

    start_offset: int


@dataclass(frozen=True, slots=True)
class SaveEpochs:
    """Write leader-epoch-checkpoint before the next append."""

    starts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class DeleteLog:
    """Set the log aside and remove it later."""


@dataclass(frozen=True, slots=True)
class ProduceAnswered:
    """`base_offset` is -1 with an error."""

    request_id: int
    error: BrokerError
    base_offset: int = -1


@dataclass(frozen=True, slots=True)
class ServeFetch:
    """Answer with whole batches from `fetch_offset` up to `end_offset` (exclusive), as many as fit; perhaps none."""

    request_id: int
    fetch_offset: int
    end_offset: int
    high_watermark: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class TellDivergence:
    """Answer without batches: the fetcher has to truncate first."""

    request_id: int
    leader: EpochEnd


@dataclass(frozen=True, slots=True)
class RefuseFetch:
    """Answer with an error."""

    request_id: int
    error: BrokerError


@dataclass(frozen=True, slots=True)
class StartFetching:
    """Fetch from this leader, from `PartitionReplica.fetch_position` on; replaces an earlier one."""

    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class StopFetching:
    """Fetch no more. An answer that is still on its way is ignored."""


@dataclass(frozen=True, slots=True)
class AskRange:
    """Ask the leader for the first and the last offset of its log; RangeAnswered follows."""

    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """Ask the controller with AlterPartition; IsrTaken or IsrRefused follows.

    `members`: (broker id, broker epoch), -1 if the epoch is unknown. Given again with the same id: ask again.
    """

    proposal_id: int
    leader_epoch: int
    partition_epoch: int
    members: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ReadableMoved:
    """Parked fetches may be answered now: the high watermark or the end moved, or the role changed."""


Output = (
    AppendBatches
    | TruncateLog
    | RestartLog
    | DeleteBefore
    | SaveEpochs
    | DeleteLog
    | ProduceAnswered
    | ServeFetch
    | TellDivergence
    | RefuseFetch
    | StartFetching
    | StopFetching
    | AskRange
    | ProposeIsr
    | ReadableMoved
)
