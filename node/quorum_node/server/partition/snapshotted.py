"""Implements the snapshot package's view of a hosted replica. Translates only; decides nothing."""

from collections.abc import Callable, Collection

from quorum_node.image.committed import CommittedImage
from quorum_node.raft.events import PrefixObsolete, SnapshotCreated
from quorum_node.records.control import VotersRecord
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.partition.applier import Applier
from quorum_node.server.partition.driver import ReplicaDriver
from quorum_node.server.partition.port import PartitionRole
from quorum_node.storage.errors import DiskFull, StorageFailure


class Snapshotted:
    """The `SnapshottedReplica`. `room`: free bytes on the disk above the reserve. `fail_storage` stops the replica."""

    def __init__(
        self,
        driver: ReplicaDriver,
        applier: Applier,
        role: Callable[[], PartitionRole],
        room: Callable[[], int],
        fail_storage: Callable[[StorageFailure | DiskFull], None],
    ) -> None:
        self._driver = driver
        self._applier = applier
        self._role = role
        self._room = room
        self._fail_storage = fail_storage
        self.committed: CommittedImage = applier.committed

    @property
    def is_loading(self) -> bool:
        """See `SnapshottedReplica`."""
        return self._applier.loading

    @property
    def has_stopped(self) -> bool:
        """See `SnapshottedReplica`."""
        return self._driver.replica.halted

    @property
    def kraft_version(self) -> int:
        """See `SnapshottedReplica`."""
        return self._driver.replica.kraft_version

    def epoch_at(self, offset: int) -> int:
        """See `SnapshottedReplica`."""
        return self._driver.replica.epochs.epoch_at(offset)

    def voters_at(self, end_offset: int) -> VotersRecord | None:
        """See `SnapshottedReplica`."""
        return self._driver.replica.voters_at(end_offset)

    def in_use(self) -> Collection[SnapshotId]:
        """See `SnapshottedReplica`."""
        return self._driver.replica.snapshots_in_use()

    def free_bytes(self) -> int:
        """See `SnapshottedReplica`."""
        return self._room()

    def may_begin(self) -> bool:
        """See `SnapshottedReplica`."""
        return self._role().may_begin_snapshot()

    def ended(self) -> None:
        """See `SnapshottedReplica`."""
        self._role().snapshot_ended()

    def created(self, id: SnapshotId) -> None:
        """See `SnapshottedReplica`."""
        self._driver.handle(SnapshotCreated(id))

    def prefix_obsolete(self, start: SnapshotId) -> None:
        """See `SnapshottedReplica`."""
        self._driver.handle(PrefixObsolete(start))

    def fail_storage(self, failure: StorageFailure | DiskFull) -> None:
        """See `SnapshottedReplica`."""
        self._fail_storage(failure)
