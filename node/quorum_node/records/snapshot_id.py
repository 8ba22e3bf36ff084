"""Snapshot id: end offset and epoch of the log prefix that a snapshot replaces, and its file name.

Owns the type and its text form. Must not know the content of snapshots or their directories.
Source: KIP-630, "Snapshot Format" (`<SnapshotId.EndOffset>-<SnapshotId.Epoch>.checkpoint`).
"""

import re
from dataclasses import dataclass

SNAPSHOT_SUFFIX = ".checkpoint"
_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
MAX_OFFSET = (1 << 63) - 1
MAX_EPOCH = (1 << 31) - 1
"""Largest epoch and offset that fit into a batch."""


@dataclass(frozen=True, slots=True, order=True)
class SnapshotId:
    """State of all records below `end_offset`; `epoch` is that of the last of them."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """`%020d-%010d.checkpoint`, so that names sort as ids do."""
        return f"{self.end_offset:020d}-{self.epoch:010d}{SNAPSHOT_SUFFIX}"

    def __str__(self) -> str:
        return f"{self.end_offset}-{self.epoch}"


NO_SNAPSHOT = SnapshotId(0, 0)
"""The start of a complete log; stock Kafka's bootstrap snapshot has the same id."""


def parse_snapshot_name(name: str) -> SnapshotId | None:
    """The id in a file name; None for every other name."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    end_offset, epoch = int(found[1]), int(found[2])
    if end_offset > MAX_OFFSET or epoch > MAX_EPOCH:
        return None
    return SnapshotId(end_offset, epoch)
