"""Events of a replica: the input of `Replica.step`.

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
    """`request_id` is the server's own number. Exactly one Respond answers it."""

    request_id: int
    request: Request


@dataclass(frozen=True, slots=True)
class RequestAbandoned:
    """The requester's connection closed: no response is needed any more."""

    request_id: int


@dataclass(frozen=True, slots=True)
class RequestHurried:
    """Answer a parked fetch now, with the available records.

    The same request fetches other partitions too, and one of them has new data. Ignored for any
    other request.
    """

    request_id: int


@made_often
@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """`correlation` is that of the Send."""

    correlation: int
    response: InboundResponse


class FailureReason(Enum):
    """Why a Send got no response. CLOSED and REFUSED suggest that the peer is down.

    UNSUPPORTED: the peer runs, but its software does not serve this request, or only in versions
    that lack required fields.
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
    """The read is no longer needed (timeout, closed connection)."""

    read_id: int


@made_often
@dataclass(frozen=True, slots=True)
class LogFlushed:
    """Everything before `end_offset` is durable."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class StorageFailed:
    """Final: the replica acknowledges nothing after this. `disk_full`: ENOSPC, not a broken disk.

    `out_of_resources`: the process lacks descriptors or memory, and the disk did not fail.
    """

    detail: str
    disk_full: bool = False
    out_of_resources: bool = False


@dataclass(frozen=True, slots=True)
class DiskLow:
    """Free space fell below the reserve (True) or is sufficient again (False)."""

    low: bool


@dataclass(frozen=True, slots=True)
class SnapshotCreated:
    """This replica wrote a durable snapshot of its own, committed state."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class SnapshotInstalled:
    """A downloaded snapshot was verified as a whole and is durable under its final name (KIP-630).

    `voters` and `kraft_version`: from its control records; None: it has no voters record.
    """

    id: SnapshotId
    voters: VotersRecord | None
    kraft_version: int


@dataclass(frozen=True, slots=True)
class SnapshotRejected:
    """A downloaded snapshot is damaged. It was set aside, and is downloaded again from its beginning."""

    id: SnapshotId
    detail: str


@dataclass(frozen=True, slots=True)
class PrefixObsolete:
    """By retention the log before this local snapshot may be deleted; DeleteLogPrefix follows if it
    is safe.
    """

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
