"""A follower of a partition in one leader epoch. PURE.

Owns the next fetch, truncation, and the follower's high watermark. Must not know connections.
Source: the replication design V3, "Follower"; KIP-101, KIP-279, KIP-595 (divergence in the fetch response). In V3 a
follower truncates to its high watermark. That loses records that are committed without the follower knowing it, so it
is done only if the log has no epochs (KIP-101 explains why).
"""

from quorum_node.broker.batch import Batch
from quorum_node.broker.epoch_history import NO_EPOCH, truncation_offset
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import (
    BatchesFetched,
    FetchPosition,
    FetchRefused,
    LogDiverged,
    RangeAnswered,
    Truncated,
)
from quorum_node.broker.log_shape import LogShape
from quorum_node.broker.outputs import (
    AskRange,
    DeleteBefore,
    ReadableMoved,
    RestartLog,
    SaveEpochs,
    StartFetching,
    StopFetching,
    TruncateLog,
)
from quorum_node.broker.producers import ProducerStates
from quorum_node.broker.replica_state import ReplicaState
from quorum_node.image.partition import Partition


class Follower:
    """Without a leader it waits for metadata."""

    __slots__ = ("_held", "_stopped", "_truncates", "asks_range", "leader_id", "state")

    def __init__(self, state: ReplicaState, partition: Partition) -> None:
        self.state = state
        self.leader_id = partition.leader
        self._truncates = False
        self._held: BatchesFetched | None = None
        """A response that is appended once the log begins at its first batch."""
        self.asks_range = False
        self._stopped = not partition.has_leader
        if self._stopped:
            state.emit(StopFetching())
            return
        state.emit(StartFetching(partition.leader, partition.leader_epoch))
        log = state.log
        if log.epochs.latest == NO_EPOCH and log.high_watermark < log.end_offset:
            self._truncate(log.high_watermark)

    @property
    def fetch_position(self) -> FetchPosition | None:
        """The next fetch; None while a write, a truncation or a request has to complete first."""
        log = self.state.log
        if self._stopped or self._truncates or self.asks_range or not log.is_written:
            return None
        return FetchPosition(
            self.leader_id, self.state.leader_epoch, log.end_offset, log.epochs.latest
        )

    def batches_fetched(self, event: BatchesFetched) -> None:
        """Append the batches that follow the own log, and update the high watermark."""
        if not self._is_current(event.position):
            return
        if self._begins_within(event):
            # DeleteRecords can move the start of a log into a batch, but batches are stored as a whole.
            self._held = event
            self._restart(event.batches[0].base_offset)
        else:
            self._take(event)

    def _begins_within(self, event: BatchesFetched) -> bool:
        """Whether the own log is empty, and starts within the first fetched batch."""
        log = self.state.log
        if not event.batches or log.start_offset != log.end_offset:
            return False
        first = event.batches[0]
        is_within = first.base_offset < log.end_offset < first.end_offset
        return is_within and first.leader_epoch <= event.position.leader_epoch

    def _take(self, event: BatchesFetched) -> None:
        state = self.state
        batches = _usable(event.batches, state.log, event.position.leader_epoch)
        if batches:
            state.append(batches)
        if event.log_start_offset > state.log.start_offset:
            self._delete_before(min(event.log_start_offset, state.log.end_offset))
        self.learn_high_watermark(event.high_watermark)

    def learn_high_watermark(self, leader_high_watermark: int) -> None:
        """Update the high watermark, up to the end of the own log."""
        self.state.raise_high_watermark(min(leader_high_watermark, self.state.log.end_offset))

    def diverged(self, event: LogDiverged) -> None:
        """Truncate records that the leader does not have."""
        if not self._is_current(event.position):
            return
        log = self.state.log
        self._truncate(truncation_offset(log.epochs, log.end_offset, event.leader))

    def refused(self, event: FetchRefused) -> None:
        """Some errors stop fetching until there is new metadata; others are temporary."""
        if not self._is_current(event.position):
            return
        if event.error is BrokerError.FENCED_LEADER_EPOCH:
            self._stopped = True
            self.state.emit(StopFetching())
        elif event.error is BrokerError.OFFSET_OUT_OF_RANGE:
            self.asks_range = True
            self.state.emit(AskRange(self.leader_id, self.state.leader_epoch))

    def range_answered(self, event: RangeAnswered) -> None:
        """The leader's log ends before the own one, or starts after it."""
        if not self.asks_range or event.leader_epoch != self.state.leader_epoch:
            return
        self.asks_range = False
        log = self.state.log
        if event.end_offset < log.end_offset:
            self._truncate(event.end_offset)
        elif event.start_offset > log.end_offset:
            self._restart(event.start_offset)

    def truncated(self, event: Truncated) -> None:
        """The log is truncated: continue fetching."""
        self._truncates = False
        self.state.producers = ProducerStates(event.producers, self.state.producers)
        held, self._held = self._held, None
        if held is not None:
            self._take(held)
        self.state.emit(ReadableMoved())

    def _is_current(self, position: FetchPosition) -> bool:
        """Whether a response to a fetch at `position` belongs to the present state of the log.

        Its last epoch counts as well: after a truncation the log may have the same end again, with the leader's records.
        """
        return position == self.fetch_position

    def _truncate(self, end_offset: int) -> None:
        state = self.state
        if end_offset < state.log.start_offset:
            # The leader has lost the first records of the own log, so all of the own log is removed.
            self._restart(end_offset)
            return
        if end_offset >= state.log.end_offset:
            # Nothing to truncate but an epoch that has no records.
            state.log.epochs.cut_end(end_offset)
            state.emit(SaveEpochs(state.log.epochs.starts))
            return
        state.log.truncate(end_offset)
        self._truncates = True
        state.emit(TruncateLog(end_offset))
        state.emit(SaveEpochs(state.log.epochs.starts))

    def _restart(self, start_offset: int) -> None:
        """Remove the whole log; it continues at `start_offset`."""
        state = self.state
        state.log.restart_at(start_offset)
        self._truncates = True
        state.emit(SaveEpochs(state.log.epochs.starts))
        state.emit(RestartLog(start_offset))

    def _delete_before(self, start_offset: int) -> None:
        self.state.log.begin_at(start_offset)
        self.state.emit(DeleteBefore(start_offset))
        self.state.emit(SaveEpochs(self.state.log.epochs.starts))


def _usable(batches: tuple[Batch, ...], log: LogShape, leader_epoch: int) -> tuple[Batch, ...]:
    """Consecutive batches that continue the own log, up to the first one of a newer epoch than requested.

    A batch of a newer epoch would be appended without the divergence check of a fetch in that epoch. Offsets and epochs
    that descend are damage on the leader's disk: the checksum covers neither of them.
    """
    usable: list[Batch] = []
    epoch, end_offset = log.epochs.latest, log.end_offset
    for batch in batches:
        if not epoch <= batch.leader_epoch <= leader_epoch or batch.base_offset < end_offset:
            break
        usable.append(batch)
        epoch, end_offset = batch.leader_epoch, batch.end_offset
    return tuple(usable)
