"""What a partition's replica says to its surroundings, and hears from them: the port of this room.

A process hosts partitions. On each of them lives a *role* (`PartitionRole`): the controller on partition 0, none elsewhere. A
role is handed to the replica's constructor as a function that makes it, and lives as long as the replica. The *owner*
(`PartitionOwner`) is who hosts the replicas; a *reporter* hears what happens and decides nothing. Other rooms import this
module of the room and no other.
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
    """One append on its way; `done` is called exactly once, when its outcome is known."""

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
        """Append encoded metadata values; None if they don't fit into a batch. `done`: once, never from within."""


# ---- Reads


class Reader:
    """One who waits; `done` is None once nobody does."""

    __slots__ = ("done",)

    def __init__(self, done: "ReadDone") -> None:
        self.done: ReadDone | None = done

    def leave(self) -> None:
        """Nobody waits any more."""
        self.done = None


ReadDone = Callable[[RaftError | None], None]


class Reads(Protocol):
    """The queue of linearizable reads."""

    def submit(self, done: ReadDone) -> Reader:
        """`done(None)`: the image is not older than this call. At most once, never from within."""

    def cancel(self, reader: Reader) -> None:
        """Nobody waits any more."""

    def count_local(self) -> None:
        """Somebody read the image as it is."""


# ---- Those around a replica

NamesVoters = raft.AddVoterRequest | raft.AlterQuorumRequest
NAMES_VOTERS = (raft.AddVoterRequest, raft.AlterQuorumRequest)


class PartitionRole(Protocol):
    """What lives on a replica besides Raft; all of it is called on the loop's thread."""

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""

    def progressed(self) -> None:
        """Role, epoch, voters or high watermark may have changed."""

    def image_changed(self) -> None:
        """There may be another committed image."""

    def image_behind(
        self, image: ClusterImage, base_offset: int, end_offset: int, epoch: int
    ) -> ClusterImage | None:
        """The image behind the batch that comes after `image`, if it was made already; None: replay the batch."""

    def appended(self, append: Append) -> None:
        """Somebody else than this role appends: it goes into the log behind all that were submitted before, or fails."""

    def settled(self, append: Append, outcome: AppendOutcome) -> None:
        """It is committed or failed. Commits are told in the order of submission, before the caller hears."""

    def refuse_voters(self, request: NamesVoters) -> raft.VoterChangeResponse | None:
        """An answer in place of the core's to a request that names new voters; None: the core decides."""

    def may_begin_snapshot(self) -> bool:
        """A snapshot is due. Asked as often as it is due."""

    def snapshot_ended(self) -> None:
        """One was written, or could not be."""

    def broker_lags(self) -> dict[int, int]:
        """Records that each broker has not applied, as far as the active controller was told."""


class NoRole:
    """On a partition that is a quorum and nothing else."""

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
    """A replica, as those see it who answer requests or watch over it."""

    @property
    def partition(self) -> int:
        """Number of the partition."""

    @property
    def log(self) -> SegmentedLog: ...

    @property
    def snapshots(self) -> SnapshotStore: ...

    @property
    def committed(self) -> CommittedImage:
        """What is committed and applied."""

    @property
    def reads(self) -> Reads: ...

    @property
    def halt(self) -> Halt | None:
        """Why it halted; None while it runs."""

    def describe(self) -> ReplicaDescription:
        """What the core knows now."""

    def voter_sets(self) -> Sequence[VotersEntry]:
        """Every voter set that the log or a snapshot tells of, the oldest first."""

    def request(self, request: raft.Request, done: Callable[[raft.Response], None]) -> int:
        """Hand a request to the core; `done` is called once, unless it is abandoned."""

    def abandon(self, request_id: int) -> None:
        """Nobody waits for the answer any more."""

    def append(self, values: tuple[bytes, ...], done: AppendDone) -> None:
        """Append encoded metadata values; `done` is called exactly once, never from within."""

    def request_snapshot(self, done: Callable[[SnapshotId | str], None]) -> None:
        """Write one now; `done` is called once, with the id or with the reason why not."""

    def fail_storage(self, failure: StorageFailure | DiskFull) -> None:
        """The disk refused outside of the driver."""


class PartitionOwner(Protocol):
    """Who hosts the replica. These are calls on which safety rests: each comes before anybody logs anything."""

    def halted(self, host: HostedPartition, halt: Halt) -> None:
        """The replica is over."""

    def voters_changed(self, host: HostedPartition, event: VotersChanged) -> None:
        """The latest voter set changed, or became committed."""

    def flushed(self) -> None:
        """The log reached the disk."""

    def broken(self, error: Exception) -> None:
        """A step ended half way, by a bug."""


class ReplicaReporter(Protocol):
    """Hears what happens to a replica, for those who read of it. Nothing may depend on it."""

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
