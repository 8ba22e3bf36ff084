"""Outputs of a partition's replica from `PartitionReplica.step`, to be executed strictly in order. PURE.

Owns the output types. Must not know who executes them.
"""

from dataclasses import dataclass

from quorum_node.broker.batch import Batch
from quorum_node.broker.epoch_history import EpochEnd
from quorum_node.broker.errors import BrokerError


@dataclass(frozen=True, slots=True)
class AppendBatches:
    """Pass the batches to the writer; Written follows."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class TruncateLog:
    """Truncate the log to `end_offset` at once; Truncated is the next event."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class RestartLog:
    """Drop the log; it continues at `start_offset`. Truncated is the next event."""

    start_offset: int


@dataclass(frozen=True, slots=True)
class DeleteBefore:
    """The leader's log starts at `start_offset`: older segments can be deleted."""

    start_offset: int


@dataclass(frozen=True, slots=True)
class SaveEpochs:
    """Write leader-epoch-checkpoint before the next append."""

    starts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class DeleteLog:
    """Rename the log and delete it later."""


@dataclass(frozen=True, slots=True)
class ProduceAnswered:
    """`base_offset` is -1 with an error."""

    request_id: int
    error: BrokerError
    base_offset: int = -1


@dataclass(frozen=True, slots=True)
class ServeFetch:
    """Respond with whole batches from `fetch_offset` up to `end_offset` (exclusive), as many as fit; possibly none."""

    request_id: int
    fetch_offset: int
    end_offset: int
    high_watermark: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class ReportDivergence:
    """Respond without batches: the follower has to truncate first."""

    request_id: int
    leader: EpochEnd


@dataclass(frozen=True, slots=True)
class RefuseFetch:
    """Respond with an error."""

    request_id: int
    error: BrokerError


@dataclass(frozen=True, slots=True)
class StartFetching:
    """Fetch from this leader, from `PartitionReplica.fetch_position` on; replaces an earlier fetcher."""

    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class StopFetching:
    """Stop fetching. Responses on their way are ignored."""


@dataclass(frozen=True, slots=True)
class AskRange:
    """Request start and end of the leader's log; RangeAnswered follows."""

    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ProposeIsr:
    """Send AlterPartition to the controller; IsrTaken or IsrRefused follows.

    `members`: (broker id, broker epoch), -1 if the epoch is unknown. The same id again: repeat the request.
    """

    proposal_id: int
    leader_epoch: int
    partition_epoch: int
    members: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ReadableMoved:
    """Answer parked fetches: the high watermark or the end moved, or the role changed."""


Output = (
    AppendBatches
    | TruncateLog
    | RestartLog
    | DeleteBefore
    | SaveEpochs
    | DeleteLog
    | ProduceAnswered
    | ServeFetch
    | ReportDivergence
    | RefuseFetch
    | StartFetching
    | StopFetching
    | AskRange
    | ProposeIsr
    | ReadableMoved
)
