"""The interfaces between a partition's replica and the rest of the process: the port of this package.

A process hosts partitions. Each has a *role* (`PartitionRole`): the controller or the broker on partition 0, none elsewhere. The
replica's constructor gets a function that creates the role, which lives as long as the replica. The *owner* (`PartitionOwner`) hosts the
replicas. A *reporter* is informed of events and decides nothing. Other packages import only this module of the package.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.committed import CommittedImage
from quorum_node.made_often import made_often
from quorum_node.raft import messages as raft
from quorum_node.raft.description import ReplicaDescription
from quorum_node.raft.errors import RaftError
from quorum_node.raft.outputs import (
    AheadOfLeader,
    CorruptionReported,
    FormationDelayed,
    Halt,
    OlderQuorum,
    ReplicaWentBack,
    RoleChanged,
    Superseded,
    VotersChanged,
)
from quorum_node.raft.roles import CorruptFetch
from quorum_node.raft.voters import VotersEntry
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.snapshots import SnapshotStore

MAX_BATCH_BYTES = 4 << 20


def clock_ms() -> float:
    """The core's clock: monotonic, milliseconds."""
    return time.monotonic() * 1000


# ---- Appends


@made_often
@dataclass(frozen=True, slots=True)
class Committed:
    """The records are at base_offset <= o < end_offset, appended in `leader_epoch`."""

    base_offset: int
    end_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The records don't fit into one batch."""

    size_bytes: int


AppendOutcome = Committed | TooLarge | RaftError
AppendDone = Callable[[AppendOutcome], None]


@dataclass(slots=True, eq=False)
class Append:
    """One append in flight; `done` is called exactly once, when its outcome is known."""

    values: tuple[bytes, ...]
    size_bytes: int
    done: AppendDone
    accepted_at: float


class Appends(Protocol):
    """The queue of appends, as a role sees it."""

    @property
    def queued_records(self) -> int:
        """Records that were accepted and are not in the log yet."""

    def submit(self, values: tuple[bytes, ...], done: AppendDone) -> Append | None:
        """Append encoded metadata values; None if they don't fit into a batch. `done` is called once, never before this returns."""


# ---- Reads


class Reader:
    """A waiting read; `done` is None after it was cancelled."""

    __slots__ = ("done",)

    def __init__(self, done: "ReadDone") -> None:
        self.done: ReadDone | None = done

    def leave(self) -> None:
        """Stop waiting."""
        self.done = None


ReadDone = Callable[[RaftError | None], None]


class Reads(Protocol):
    """The queue of linearizable reads."""

    def submit(self, done: ReadDone) -> Reader:
        """`done(None)` is called when the image is not older than this call. At most once, never before this returns."""

    def cancel(self, reader: Reader) -> None:
        """Cancel a waiting read."""

    def count_local(self) -> None:
        """Count a local read, which does not wait."""


# ---- The parts around a replica

NamesVoters = raft.AddVoterRequest | raft.AlterQuorumRequest
NAMES_VOTERS = (raft.AddVoterRequest, raft.AlterQuorumRequest)


class PartitionRole(Protocol):
    """The role that a replica has besides Raft. All methods are called on the loop's thread."""

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""

    def progressed(self) -> None:
        """Role, epoch, voters or high watermark may have changed."""

    def image_changed(self) -> None:
        """The committed image may have changed."""

    def image_behind(
        self, image: ClusterImage, base_offset: int, end_offset: int, epoch: int
    ) -> ClusterImage | None:
        """The image after the batch that follows `image`, if it was made already; None: replay the batch."""

    def appended(self, append: Append) -> None:
        """Another part than this role appends. The append follows all that were submitted before, or fails."""

    def settled(self, append: Append, outcome: AppendOutcome) -> None:
        """The append is committed or has failed. Commits are reported in the order of submission, before the caller's callback."""

    def refuse_voters(self, request: NamesVoters) -> raft.VoterChangeResponse | None:
        """An answer to a request that names new voters, instead of the core's; None: the core decides."""

    def may_begin_snapshot(self) -> bool:
        """A snapshot is due: whether it may begin. Called again as long as it is due."""

    def snapshot_ended(self) -> None:
        """A snapshot was written, or has failed."""

    def broker_lags(self) -> dict[int, int]:
        """Number of records that each broker has not applied, as reported to the active controller."""


class NoRole:
    """The role of a partition that has none."""

    is_active = False

    def progressed(self) -> None:
        """See `PartitionRole`."""

    def image_changed(self) -> None:
        """See `PartitionRole`."""

    def image_behind(
        self, image: ClusterImage, base_offset: int, end_offset: int, epoch: int
    ) -> ClusterImage | None:
        """See `PartitionRole`."""
        return None

    def appended(self, append: Append) -> None:
        """See `PartitionRole`."""

    def settled(self, append: Append, outcome: AppendOutcome) -> None:
        """See `PartitionRole`."""

    def refuse_voters(self, request: NamesVoters) -> raft.VoterChangeResponse | None:
        """See `PartitionRole`."""
        return None

    def may_begin_snapshot(self) -> bool:
        """See `PartitionRole`."""
        return True

    def snapshot_ended(self) -> None:
        """See `PartitionRole`."""

    def broker_lags(self) -> dict[int, int]:
        """See `PartitionRole`."""
        return {}


class HostedPartition(Protocol):
    """A replica, as seen by request handlers and by the process."""

    @property
    def partition(self) -> int:
        """Number of the partition."""

    @property
    def log(self) -> SegmentedLog: ...

    @property
    def snapshots(self) -> SnapshotStore: ...

    @property
    def committed(self) -> CommittedImage:
        """The image of the committed records that are applied."""

    @property
    def reads(self) -> Reads: ...

    @property
    def halt(self) -> Halt | None:
        """The reason why it halted; None while it runs."""

    def describe(self) -> ReplicaDescription:
        """The state of the core now."""

    async def next_role(self) -> None:
        """Return when the role, or the known leader, changes next."""

    def voter_sets(self) -> Sequence[VotersEntry]:
        """Every voter set in the log or a snapshot, the oldest first."""

    def request(self, request: raft.Request, done: Callable[[raft.Response], None]) -> int:
        """Pass a request to the core. `done` is called once, unless the request is abandoned."""

    def abandon(self, request_id: int) -> None:
        """The answer is not needed any more."""

    def append(self, values: tuple[bytes, ...], done: AppendDone) -> None:
        """Append encoded metadata values. `done` is called exactly once, never before this returns."""

    def request_snapshot(self, done: Callable[[SnapshotId | str], None]) -> None:
        """Write a snapshot now. `done` is called once, with its id or with the reason of the failure."""

    def fail_storage(self, failure: StorageFailure | DiskFull) -> None:
        """The disk failed outside of the driver."""


class PartitionOwner(Protocol):
    """The host of the replica. Safety depends on these calls: each comes before anything is logged."""

    def halted(self, host: HostedPartition, halt: Halt) -> None:
        """The replica has halted."""

    def voters_changed(self, host: HostedPartition, event: VotersChanged) -> None:
        """The latest voter set changed, or became committed."""

    def flushed(self) -> None:
        """The log was flushed to the disk."""

    def broken(self, error: Exception) -> None:
        """A bug interrupted a step."""


class ReplicaReporter(Protocol):
    """Informed of events for logs and metrics. Nothing may depend on it."""

    def role_changed(self, event: RoleChanged) -> None: ...

    def voters_changed(self, event: VotersChanged) -> None: ...

    def formation_delayed(self, event: FormationDelayed) -> None: ...

    def ahead_of_leader(self, event: AheadOfLeader) -> None: ...

    def replica_went_back(self, event: ReplicaWentBack) -> None: ...

    def corrupt_fetch(self, event: CorruptFetch) -> None: ...

    def corruption_reported(self, event: CorruptionReported) -> None: ...

    def older_quorum(self, event: OlderQuorum) -> None: ...

    def superseded(self, event: Superseded) -> None: ...

    def halted(self, event: Halt) -> None: ...
