"""Opening a replica that has snapshots: which one is whole, and how it and the log fit together.

Owns these two decisions. Knows nothing of what a snapshot holds.

A snapshot is committed state. So the record before its end has its epoch in every log that reaches so far; a log
that disagrees, or ends before it, was about to be replaced by the snapshot when the process was killed (or lost
a tail that nobody was told of): the replacement is finished. What the snapshot does not hold and this replica
knows to be committed is never dropped that way.
"""

from dataclasses import dataclass

from quorum_node.records.snapshot_format import CorruptSnapshot, SnapshotBounds
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.snapshots import SnapshotStore


@dataclass(frozen=True, slots=True)
class WholeSnapshot:
    """A snapshot that was verified from its first byte to its last."""

    id: SnapshotId
    bounds: SnapshotBounds


def newest_whole(store: SnapshotStore) -> tuple[WholeSnapshot | None, tuple[str, ...]]:
    """The newest undamaged snapshot; damaged newer ones are set aside, and told of."""
    notes: list[str] = []
    while (latest := store.latest()) is not None:
        try:
            return WholeSnapshot(latest, store.verify(latest)), tuple(notes)
        except CorruptSnapshot as error:
            aside = store.set_aside(latest)
            notes.append(f"{error}; it was set aside as {aside.name} and is not used")
    return None, tuple(notes)


def finish_reset(log: SegmentedLog, id: SnapshotId, applied_offset: int) -> tuple[str, ...]:
    """Begin the log anew at the snapshot if it does not go on from it. Raises StorageFailure."""
    if log.epoch_before(id.end_offset) == id.epoch or id.end_offset == 0:
        return ()
    if log.end_offset > id.end_offset and applied_offset > id.end_offset:
        raise StorageFailure(
            f"the log disagrees with snapshot {id}, and {applied_offset} was committed and applied:"
            " one of the two is not this replica's"
        )
    text = f"the log (offsets {log.start_offset} to {log.end_offset}) does not go on from snapshot {id}"
    log.reset_to(id)
    return (f"{text}: it was replaced by the snapshot, which holds everything committed below it",)
