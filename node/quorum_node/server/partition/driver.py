"""The driver: executes the outputs of a replica, strictly in order, on the devices that it is given.

Owns the order of effects (KIP-595, requirement K595-06: fsync before anything that depends on it) and the translation of storage errors
into events. Must not know sockets, threads, event loops or files: the server and the simulation run this class with their own devices.

Everything here runs on one thread. Only `Log.flush` may run elsewhere, started by the Flusher.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from quorum_node.raft.description import ReplicaDescription
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import (
    Event,
    LogFlushed,
    SnapshotInstalled,
    SnapshotRejected,
    StorageFailed,
    TimerExpired,
)
from quorum_node.raft.messages import (
    FetchResponse,
    FetchSnapshotResponse,
    OutboundRequest,
    Response,
)
from quorum_node.raft.outputs import (
    AheadOfLeader,
    AppendBatch,
    CorruptionReported,
    DeleteLogPrefix,
    DropPartialSnapshot,
    FinishSnapshot,
    FlushLog,
    FormationDelayed,
    Halt,
    HighWatermarkAdvanced,
    OlderQuorum,
    Output,
    PersistQuorumState,
    ProposalCommitted,
    ProposalFailed,
    ReadConfirmed,
    ReadFailed,
    ReplicaWentBack,
    ResetLog,
    Respond,
    RoleChanged,
    Send,
    Superseded,
    TruncateLog,
    VotersChanged,
    WriteSnapshotChunk,
)
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.raft.replica import Replica
from quorum_node.raft.roles import CorruptFetch
from quorum_node.records.identity import Endpoint
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.errors import DiskFull, OutOfResources, StorageFailure


class Log(Protocol):
    """The log of one partition. Every method may raise StorageFailure; `append` also DiskFull."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    def append(self, data: bytes, base_offset: int, end_offset: int, leader_epoch: int) -> None: ...

    def truncate_to(self, end_offset: int) -> None: ...

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes: ...

    def read_checked(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        """As `read`, but from the disk itself; raises StorageFailure if any of it is damaged."""

    def flush(self) -> int: ...

    def reset_to(self, id: SnapshotId) -> None:
        """Drop everything; the log then starts and ends at the end of a durable snapshot."""

    def delete_prefix(self, id: SnapshotId) -> None:
        """The log then starts at the end of a durable snapshot, which is within the log."""


class Snapshots(Protocol):
    """The snapshots of one partition: verified ones by id, and one partial download.

    Every method may raise StorageFailure; `append_partial` also DiskFull.
    """

    def size_bytes(self, id: SnapshotId) -> int | None:
        """Size of a verified snapshot; None if there is none with that id."""

    def checksum(self, id: SnapshotId) -> int | None:
        """CRC-32C of the whole file, if it is known."""

    def read(self, id: SnapshotId, position: int, max_bytes: int) -> bytes: ...

    def append_partial(self, id: SnapshotId, position: int, data: bytes) -> None:
        """Write at `position` and truncate what follows it; 0 begins a new partial file."""

    def drop_partial(self, id: SnapshotId) -> None: ...

    def start_finish(self, id: SnapshotId, size_bytes: int, checksum: int | None) -> None:
        """Verify, make durable and rename the partial file, possibly on another thread.

        The result is reported on the driver's thread, after the file is durable: `driver.snapshot_finished(event)`, or
        `driver.flush_failed(error)` when the disk failed.
        """


class QuorumStateStore(Protocol):
    """Saves the quorum state durably before it returns, or raises StorageFailure or DiskFull."""

    def save(self, state: QuorumState) -> None: ...


class Transport(Protocol):
    """Sends requests and answers; every `send` is followed by ResponseReceived or RequestFailed."""

    def send(
        self, correlation: int, endpoint: Endpoint, request: OutboundRequest, timeout_ms: float
    ) -> None: ...

    def respond(self, request_id: int, response: Response) -> None: ...


class Flusher(Protocol):
    """Runs `log.flush()`, possibly on another thread, at most one at a time.

    The result is reported on the driver's thread: `driver.flush_completed(ticket, end_offset)`, or `driver.flush_failed(error)`.
    """

    def start(self, ticket: int) -> None: ...


class ReplicaListener(Protocol):
    """Callbacks for the outputs of the replica. They may call `driver.handle`: the event is handled after the current one."""

    def proposal_committed(self, output: ProposalCommitted) -> None: ...

    def proposal_failed(self, output: ProposalFailed) -> None: ...

    def read_confirmed(self, output: ReadConfirmed) -> None: ...

    def read_failed(self, output: ReadFailed) -> None: ...

    def high_watermark_advanced(self, offset: int) -> None: ...

    def log_reset(self, id: SnapshotId) -> None:
        """The log starts at the end of that snapshot now: the state up to there has to be loaded from it."""

    def role_changed(self, output: RoleChanged) -> None: ...

    def voters_changed(self, output: VotersChanged) -> None: ...

    def formation_delayed(self, output: FormationDelayed) -> None: ...

    def ahead_of_leader(self, output: AheadOfLeader) -> None: ...

    def replica_went_back(self, output: ReplicaWentBack) -> None: ...

    def corrupt_fetch(self, output: CorruptFetch) -> None: ...

    def corruption_reported(self, output: CorruptionReported) -> None: ...

    def older_quorum(self, output: OlderQuorum) -> None: ...

    def superseded(self, output: Superseded) -> None: ...

    def halted(self, output: Halt) -> None: ...

    def broken(self, error: Exception) -> None:
        """A bug interrupted a step: the state of this replica must not be used any more."""

    def deadline_changed(self, deadline_ms: float | None) -> None:
        """A TimerExpired event is due at that time of the clock, in milliseconds. It may be sent early, never much later."""


class ReplicaDriver:
    """One replica and its devices. `clock` is monotonic, in milliseconds."""

    def __init__(
        self,
        replica: Replica,
        log: Log,
        quorum_state_store: QuorumStateStore,
        transport: Transport,
        clock: Callable[[], float],
        flusher: Flusher,
        listener: ReplicaListener,
        snapshots: Snapshots,
    ) -> None:
        self.replica = replica
        self._log = log
        self._store = quorum_state_store
        self._transport = transport
        self._clock = clock
        self._flusher = flusher
        self._listener = listener
        self._snapshots = snapshots
        self._events: deque[Event] = deque()
        self._busy = False
        self._deadline_ms: float | None = None
        self._truncations = 0
        self._flushing = False
        self._flush_again = False
        self._execute: dict[type, Callable[[Any], None]] = {
            TruncateLog: self._truncate,
            AppendBatch: self._append,
            PersistQuorumState: self._persist,
            FlushLog: self._flush,
            WriteSnapshotChunk: self._write_chunk,
            DropPartialSnapshot: self._drop_partial,
            FinishSnapshot: self._finish_snapshot,
            ResetLog: self._reset_log,
            DeleteLogPrefix: self._delete_prefix,
            Send: self._send,
            Respond: self._respond,
            ProposalCommitted: listener.proposal_committed,
            ProposalFailed: listener.proposal_failed,
            ReadConfirmed: listener.read_confirmed,
            ReadFailed: listener.read_failed,
            HighWatermarkAdvanced: self._high_watermark,
            RoleChanged: listener.role_changed,
            VotersChanged: listener.voters_changed,
            FormationDelayed: listener.formation_delayed,
            AheadOfLeader: listener.ahead_of_leader,
            ReplicaWentBack: listener.replica_went_back,
            CorruptFetch: listener.corrupt_fetch,
            CorruptionReported: listener.corruption_reported,
            OlderQuorum: listener.older_quorum,
            Superseded: listener.superseded,
            Halt: listener.halted,
        }

    def start(self) -> None:
        """Start the replica."""
        self.handle(TimerExpired())

    def handle(self, event: Event) -> None:
        """Handle an event, and everything that follows from it, on this thread."""
        self._events.append(event)
        if self._busy:
            return
        self._busy = True
        try:
            while self._events:
                self._step(self._events.popleft())
            deadline_ms = self.replica.next_deadline_ms()
        except Exception as error:
            # `_busy` stays set: later events are queued and never handled.
            self._listener.broken(error)
            raise
        self._busy = False
        if deadline_ms != self._deadline_ms:
            self._deadline_ms = deadline_ms
            self._listener.deadline_changed(deadline_ms)

    def next_deadline_ms(self) -> float | None:
        """Time at which a TimerExpired event is due, in milliseconds; None: not before another event."""
        return self.replica.next_deadline_ms()

    def describe(self) -> ReplicaDescription:
        """A description of the replica's current state."""
        try:
            return self.replica.describe(self._clock())
        except Exception as error:
            self._listener.broken(error)
            raise

    def flush_completed(self, ticket: int, end_offset: int) -> None:
        """A flush that was started with `ticket` has made everything before `end_offset` durable."""
        self._flushing = False
        stale = ticket != self._truncations
        if self._flush_again or stale:
            self._flush_again = False
            self._start_flush()
        if not stale:
            # A flush that began before a truncation does not cover the records that have these offsets now.
            self.handle(LogFlushed(end_offset))

    def flush_failed(self, error: StorageFailure | DiskFull) -> None:
        """A flush failed. It is never retried (`_flushing` stays set)."""
        self.handle(storage_failed(error))

    def snapshot_finished(self, event: SnapshotInstalled | SnapshotRejected) -> None:
        """A downloaded snapshot was verified and is durable, or it is damaged."""
        self.handle(event)

    def _step(self, event: Event) -> None:
        outputs: list[Output] = self.replica.step(event, self._clock())
        execute = self._execute
        try:
            for output in outputs:
                execute[type(output)](output)
        except (StorageFailure, DiskFull) as error:
            # The outputs after a failed one depend on it: none of them may be executed.
            self._events.appendleft(storage_failed(error))

    def _truncate(self, output: TruncateLog) -> None:
        self._truncations += 1
        self._log.truncate_to(output.end_offset)

    def _append(self, output: AppendBatch) -> None:
        self._log.append(output.data, output.base_offset, output.end_offset, output.leader_epoch)

    def _persist(self, output: PersistQuorumState) -> None:
        end_offset = self._log.flush()
        self._store.save(output.state)
        # Before any other output: the next ones may truncate.
        self._events.appendleft(LogFlushed(end_offset))

    def _flush(self, output: FlushLog) -> None:
        if self._flushing:
            self._flush_again = True
        else:
            self._start_flush()

    def _start_flush(self) -> None:
        self._flushing = True
        self._flusher.start(self._truncations)

    def _write_chunk(self, output: WriteSnapshotChunk) -> None:
        self._snapshots.append_partial(output.id, output.position, output.data)

    def _drop_partial(self, output: DropPartialSnapshot) -> None:
        self._snapshots.drop_partial(output.id)

    def _finish_snapshot(self, output: FinishSnapshot) -> None:
        self._snapshots.start_finish(output.id, output.size_bytes, output.checksum)

    def _reset_log(self, output: ResetLog) -> None:
        self._truncations += 1
        self._log.reset_to(output.id)
        self._listener.log_reset(output.id)

    def _delete_prefix(self, output: DeleteLogPrefix) -> None:
        self._log.delete_prefix(output.id)

    def _send(self, output: Send) -> None:
        self._transport.send(
            output.correlation, output.destination, output.request, output.timeout_ms
        )

    def _respond(self, output: Respond) -> None:
        response = output.response
        if type(response) is FetchResponse and response.range is not None:
            wanted = response.range
            read = self._log.read_checked if wanted.checked else self._log.read
            records = read(wanted.start_offset, wanted.max_bytes, wanted.limit_offset)
            response = FetchResponse(
                response.error,
                response.leader,
                response.high_watermark,
                response.log_start_offset,
                response.diverging,
                wanted,
                records,
                response.answer,
                None,
                response.keeping_up,
            )
        elif type(response) is FetchSnapshotResponse and response.part is not None:
            response = self._read_part(response)
        self._transport.respond(output.request_id, response)

    def _read_part(self, response: FetchSnapshotResponse) -> FetchSnapshotResponse:
        part = response.part
        assert part is not None
        size_bytes = self._snapshots.size_bytes(part.id)
        if size_bytes is None:
            return replace(response, error=RaftError.SNAPSHOT_NOT_FOUND, part=None)
        if not 0 <= part.position < size_bytes:
            return replace(response, error=RaftError.POSITION_OUT_OF_RANGE, part=None)
        return replace(
            response,
            size_bytes=size_bytes,
            data=self._snapshots.read(part.id, part.position, part.max_bytes),
            checksum=self._snapshots.checksum(part.id),
        )

    def _high_watermark(self, output: HighWatermarkAdvanced) -> None:
        self._listener.high_watermark_advanced(output.offset)


def storage_failed(error: StorageFailure | DiskFull) -> StorageFailed:
    """The event for this error."""
    return StorageFailed(str(error), isinstance(error, DiskFull), isinstance(error, OutOfResources))
