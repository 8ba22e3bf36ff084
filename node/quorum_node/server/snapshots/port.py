"""What taking snapshots needs of a replica: the port of this room."""

from collections.abc import Collection
from typing import Protocol

from quorum_node.image.committed import CommittedImage
from quorum_node.records.control import VotersRecord
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.errors import DiskFull, StorageFailure

Outcome = SnapshotId | str
"""Of a snapshot that was asked for: its id, or why there is none."""


class SnapshottedReplica(Protocol):
    """The replica whose state is written down."""

    @property
    def committed(self) -> CommittedImage:
        """What is committed and applied."""

    @property
    def is_loading(self) -> bool:
        """Whether the image is older than a snapshot that is on its way."""

    @property
    def has_stopped(self) -> bool:
        """It takes part no more."""

    @property
    def kraft_version(self) -> int: ...

    def epoch_at(self, offset: int) -> int:
        """The leader epoch in which the record there was appended."""

    def voters_at(self, end_offset: int) -> VotersRecord | None:
        """The voters record that held there; None without one."""

    def in_use(self) -> Collection[SnapshotId]:
        """Snapshots that others are downloading."""

    def free_bytes(self) -> int:
        """What the disk has above the reserve."""

    def may_begin(self) -> bool:
        """One is due: asked as often as it is."""

    def ended(self) -> None:
        """One was written, or could not be."""

    def created(self, id: SnapshotId) -> None:
        """One is durable: the core may use it."""

    def prefix_obsolete(self, start: SnapshotId) -> None:
        """By the policy the log may start there."""

    def fail_storage(self, failure: StorageFailure | DiskFull) -> None:
        """The disk refused: the replica ends."""
