"""Opening a log: which segments there are, what they hold, and whether all of it is still there.

Owns the order of checks at open. Knows nothing of appending or of who reads.

A segment with a seal that fits is taken as it was sealed, without reading it: it was durable whole, and `scrub`
reads it in the background. Every other one is scanned batch by batch; only the last may end in a torn tail.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from quorum_node.records.batches import CorruptBatch, split_batches
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.file_system import POSIX, FileSystem
from quorum_node.storage.leader_epochs import EpochStarts
from quorum_node.storage.seal import SEAL_SUFFIX, read_seal
from quorum_node.storage.segment import SUFFIX, Segment


class BeginsBehindNothing(StorageFailure):
    """The log does not begin at 0, and no undamaged snapshot holds what was before it."""

    def __init__(self, message: str, base_offset: int) -> None:
        super().__init__(message)
        self.base_offset = base_offset


@dataclass(slots=True)
class OpenedSegments:
    """What was found. `sealed` were taken unread, `scanned` were read; at least one segment is there."""

    segments: list[Segment] = field(default_factory=list)
    sealed: list[Segment] = field(default_factory=list)
    scanned: list[Segment] = field(default_factory=list)
    epoch_starts: EpochStarts = field(default_factory=list)
    control_batches: list[bytes] = field(default_factory=list)
    end_offset: int = 0
    torn_bytes: int = 0
    created: bool = False


def open_segments(
    directory: Path, base_offset_if_empty: int, files: FileSystem = POSIX
) -> OpenedSegments:
    """Open every segment; a torn tail is cut off. Raises StorageFailure on damage, and OSError."""
    names = sorted(name for name in files.names(directory) if name.endswith(SUFFIX))
    bases = [int(name.removesuffix(SUFFIX)) for name in names] or [base_offset_if_empty]
    _drop_orphan_seals(directory, names, files)
    opened = OpenedSegments(end_offset=bases[0], created=not names)
    for index, base in enumerate(bases):
        if base != opened.end_offset:
            raise StorageFailure(
                f"segment {base:020d}{SUFFIX} in {directory} does not follow offset"
                f" {opened.end_offset}: a segment is missing or cut short"
            )
        segment = Segment(directory, base, files)
        opened.segments.append(segment)
        following = bases[index + 1] if index + 1 < len(bases) else None
        if following is not None and segment.adopt_seal(following):
            _take_sealed(opened, segment, following)
        else:
            _scan(opened, segment, is_last=following is None)
    _refuse_sealed_last(opened.segments[-1])
    return opened


def log_start(base_offset: int, snapshots: Sequence[SnapshotId], directory: Path) -> SnapshotId:
    """The oldest snapshot that reaches the first segment stands for what was deleted before it."""
    if base_offset == 0:
        return NO_SNAPSHOT
    covering = [each for each in snapshots if each.end_offset >= base_offset]
    if not covering:
        raise BeginsBehindNothing(
            f"the log in {directory} begins at offset {base_offset}, and no undamaged snapshot"
            " holds what was before it: the state can't be rebuilt from this disk. If the others don't"
            " have that snapshot any more, replace this replica by one with an empty disk; it fetches"
            " everything from them.",
            base_offset,
        )
    return covering[0]


def _take_sealed(opened: OpenedSegments, segment: Segment, end_offset: int) -> None:
    last_epoch = _last_epoch(opened)
    for epoch, offset in segment.epoch_starts:
        if epoch < last_epoch:
            raise StorageFailure(f"{segment.path} holds epoch {epoch} after epoch {last_epoch}")
        if epoch != last_epoch:
            opened.epoch_starts.append((epoch, offset))
            last_epoch = epoch
    opened.control_batches += [_checked(data, segment) for data in segment.control_batches()]
    opened.end_offset = end_offset
    opened.sealed.append(segment)


def _scan(opened: OpenedSegments, segment: Segment, *, is_last: bool) -> None:
    scan = segment.load(_last_epoch(opened))
    if scan.torn_bytes and not is_last:
        raise StorageFailure(f"{segment.path} ends in damage before the tail of the log")
    if scan.torn_bytes:
        segment.cut()
        opened.torn_bytes = scan.torn_bytes
    opened.epoch_starts += scan.epoch_starts
    opened.control_batches += scan.control_batches
    opened.end_offset = scan.end_offset
    opened.scanned.append(segment)


def _refuse_sealed_last(segment: Segment) -> None:
    """Its seal was written after the next segment's name was durable."""
    seal = read_seal(segment.path, segment.files)
    if seal is not None:
        raise StorageFailure(
            f"{segment.path} is sealed: a segment from offset {seal.end_offset} on must follow, and"
            " it is gone with what was acknowledged in it"
        )


def _last_epoch(opened: OpenedSegments) -> int:
    return opened.epoch_starts[-1][0] if opened.epoch_starts else -1


def _checked(data: bytes, segment: Segment) -> bytes:
    """Voter sets are taken from these at once: they don't wait for the scrub."""
    try:
        batches, rest_bytes = split_batches(data)
    except CorruptBatch as error:
        raise StorageFailure(f"a control batch in {segment.path} is damaged: {error}") from error
    if len(batches) != 1 or rest_bytes:
        raise StorageFailure(f"a control batch in {segment.path} is not where its seal says")
    return data


def _drop_orphan_seals(directory: Path, names: list[str], files: FileSystem) -> None:
    """A prefix was deleted, and the process killed between a segment and its seal."""
    kept = {name.removesuffix(SUFFIX) for name in names}
    for name in files.names(directory):
        if name.endswith(SEAL_SUFFIX) and name.removesuffix(SEAL_SUFFIX) not in kept:
            files.unlink(directory / name)
