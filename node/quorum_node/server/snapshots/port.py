"""The port of this package: the methods of a replica that its snapshots require."""

from collections.abc import Collection
from typing import Protocol

from quorum_node.image.committed import CommittedImage
from quorum_node.records.control import VotersRecord
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.errors import DiskFull, StorageFailure

Outcome = SnapshotId | str
"""The result of a requested snapshot: its id, or the reason why it was not written."""


class SnapshottedReplica(Protocol):
    """The replica whose state is written."""

    @property
    def committed(self) -> CommittedImage:
        """The image of the committed records that are applied."""

    @property
    def is_loading(self) -> bool:
        """Whether a snapshot is being loaded that is newer than the image."""

    @property
    def has_stopped(self) -> bool:
        """Whether this replica has halted."""

    @property
    def kraft_version(self) -> int: ...

    def epoch_at(self, offset: int) -> int:
        """The leader epoch in which the record at `offset` was appended."""

    def voters_at(self, end_offset: int) -> VotersRecord | None:
        """The voters record that is in force at `end_offset`; None if there is none."""

    def in_use(self) -> Collection[SnapshotId]:
        """Snapshots that other replicas are downloading."""

    def free_bytes(self) -> int:
        """Free bytes on the disk above the reserve."""

    def may_begin(self) -> bool:
        """A snapshot is due: whether it may begin. Called again as long as it is due."""

    def ended(self) -> None:
        """A snapshot was written, or has failed."""

    def created(self, id: SnapshotId) -> None:
        """A snapshot is durable: the core may use it."""

    def prefix_obsolete(self, start: SnapshotId) -> None:
        """According to the policy the log may start at this snapshot."""

    def fail_storage(self, failure: StorageFailure | DiskFull) -> None:
        """The disk failed: the replica stops."""
