"""What can happen to a replica: the input of `Replica.step`.

Owns the event types. Must not know who raises them (`server/driver.py`, the simulation).
"""

from dataclasses import dataclass
from enum import Enum

from quorum_node.made_often import made_often
from quorum_node.raft.messages import InboundResponse, Request
from quorum_node.records.control import VotersRecord
from quorum_node.records.snapshot_id import SnapshotId


@made_often
@dataclass(frozen=True, slots=True)
class RequestReceived:
    """`request_id` is the server's own number; exactly one Respond carries it back."""

    request_id: int
    request: Request


@dataclass(frozen=True, slots=True)
class RequestAbandoned:
    """The requester's connection closed: no answer is needed any more."""

    request_id: int


@dataclass(frozen=True, slots=True)
class RequestHurried:
    """A parked fetch is to be answered now, with what there is: its request concerns other
    partitions too, and one of them has news. Means nothing for any other request.
    """

    request_id: int


@made_often
@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """`correlation` is that of the Send."""

    correlation: int
    response: InboundResponse


class FailureReason(Enum):
    """Why a Send got no response. CLOSED and REFUSED are hints that the peer is gone.

    UNSUPPORTED: it is there, and its software does not serve this request, or only in versions that
    can't carry it.
    """

    CLOSED = "closed"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class RequestFailed:
    correlation: int
    reason: FailureReason


@made_often
@dataclass(frozen=True, slots=True)
class Proposed:
    """Encoded metadata values to append as one batch, all or nothing; at least one."""

    proposal_id: int
    records: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ReadRequested:
    """A linearizable read; answered by ReadConfirmed or ReadFailed."""

    read_id: int


@dataclass(frozen=True, slots=True)
class ReadAbandoned:
    """Nobody waits for this read any more (timeout, closed connection)."""

    read_id: int


@made_often
@dataclass(frozen=True, slots=True)
class LogFlushed:
    """Everything before `end_offset` is durable."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class StorageFailed:
    """Final: the replica acknowledges nothing any more. `disk_full`: ENOSPC, not a broken disk."""

    detail: str
    disk_full: bool = False


@dataclass(frozen=True, slots=True)
class DiskLow:
    """Free space fell below the reserve (True) or is back (False)."""

    low: bool


@dataclass(frozen=True, slots=True)
class SnapshotCreated:
    """This replica wrote a snapshot of its own state and has it durably; it was committed by then."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class SnapshotInstalled:
    """A downloaded snapshot was verified as a whole and is durable under its name (KIP-630).

    `voters` and `kraft_version` are what its control records say; None: it has no voters record.
    """

    id: SnapshotId
    voters: VotersRecord | None
    kraft_version: int


@dataclass(frozen=True, slots=True)
class SnapshotRejected:
    """A downloaded snapshot is damaged. It was set aside, and is fetched again from its beginning."""

    id: SnapshotId
    detail: str


@dataclass(frozen=True, slots=True)
class PrefixObsolete:
    """By retention the log before this local snapshot may go; DeleteLogPrefix follows if it is safe."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class TimerExpired:
    """`Replica.next_deadline_ms` has come; harmless when early."""


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
    """Graceful stop: a leader hands over first; Halt follows."""


Event = (
    RequestReceived
    | RequestAbandoned
    | RequestHurried
    | ResponseReceived
    | RequestFailed
    | Proposed
    | ReadRequested
    | ReadAbandoned
    | LogFlushed
    | StorageFailed
    | DiskLow
    | SnapshotCreated
    | SnapshotInstalled
    | SnapshotRejected
    | PrefixObsolete
    | TimerExpired
    | ShutdownRequested
)
