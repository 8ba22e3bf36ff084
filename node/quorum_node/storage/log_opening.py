"""Opens a log: lists segments, reads them, and checks that nothing is missing.

Owns the order of checks at open. Must not know appending or readers.
A segment with a matching seal is opened without reading it: it was fully durable, and `scrub` reads
it in the background. All others are read from the disk and scanned batch by batch. Data that was
never synced may be incomplete anywhere: the log ends where it is no longer readable, and later
segments are removed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from quorum_node.records.batches import split_batches
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId
from quorum_node.storage.atomic_file import sync_directory
from quorum_node.storage.checked_read import check_batches
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.file_system import POSIX, FileSystem
from quorum_node.storage.leader_epochs import EpochStarts
from quorum_node.storage.log_end import NOTHING_KNOWN, KnownSynced, Verdict
from quorum_node.storage.seal import SEAL_SUFFIX, read_seal, seal_path
from quorum_node.storage.segment import SUFFIX, Segment, segment_bases
from quorum_node.storage.synced_end import RecordedEnd


class BeginsBehindNothing(StorageFailure):
    """The log does not start at 0, and no undamaged snapshot covers the records before it."""

    def __init__(self, message: str, base_offset: int) -> None:
        super().__init__(message)
        self.base_offset = base_offset


class LogCutShort(StorageFailure):
    """The log is shorter than its synced end: the disk of this replica has lost data."""

    def __init__(self, directory: Path, end_offset: int, synced: KnownSynced) -> None:
        super().__init__(
            f"the log in {directory} ends at offset {end_offset}, but everything below offset {synced.recorded_offset} was synced: the disk has lost synced data, or it is an older copy. Records that this replica acknowledged may be missing, so it must not vote with what is"
            " left. Replace it by one with an empty disk; it fetches everything from the other voters"
        )


@dataclass(slots=True)
class OpenedSegments:
    """`sealed` were opened unread, `scanned` were read; there is at least one segment."""

    segments: list[Segment] = field(default_factory=list)
    sealed: list[Segment] = field(default_factory=list)
    scanned: list[Segment] = field(default_factory=list)
    epoch_starts: EpochStarts = field(default_factory=list)
    control_batches: list[bytes] = field(default_factory=list)
    end_offset: int = 0
    cut: list[Segment] = field(default_factory=list)
    torn_bytes: int = 0
    names_changed: bool = False


def open_segments(
    directory: Path,
    base_offset_if_empty: int,
    files: FileSystem = POSIX,
    synced: KnownSynced = NOTHING_KNOWN,
) -> OpenedSegments:
    """Open every segment and truncate data that was never synced. Raises StorageFailure on damage, and OSError."""
    found = segment_bases(files.names(directory))
    bases = found or [base_offset_if_empty]
    _drop_orphan_seals(directory, found, files)
    synced = _raise_by_seals(directory, bases, synced, files)
    opened = OpenedSegments(end_offset=bases[0], names_changed=not found)
    for index, base in enumerate(bases):
        if base != opened.end_offset:
            if _ends_here(opened, synced):
                _drop_segments(opened, directory, bases[index:], files)
                break
            raise StorageFailure(
                f"segment {base:020d}{SUFFIX} in {directory} does not follow offset"
                f" {opened.end_offset}: a segment is missing or cut short"
            )
        segment = Segment(directory, base, files)
        opened.segments.append(segment)
        following = bases[index + 1] if index + 1 < len(bases) else None
        if following is not None and segment.adopt_seal(following):
            _take_sealed(opened, segment, following)
        elif not _scan(opened, segment, synced, is_last=following is None):
            _drop_segments(opened, directory, bases[index + 1 :], files)
            segment.cut()
            opened.cut.append(segment)
            break
    _refuse_sealed_last(opened.segments[-1])
    return opened


def log_start(base_offset: int, snapshots: Sequence[SnapshotId], directory: Path) -> SnapshotId:
    """The oldest snapshot that reaches the first segment becomes the start of the log."""
    if base_offset == 0:
        return NO_SNAPSHOT
    covering = [each for each in snapshots if each.end_offset >= base_offset]
    if not covering:
        raise BeginsBehindNothing(
            f"the log in {directory} begins at offset {base_offset}, and no undamaged snapshot covers the records before it: the state can't be rebuilt from this disk. If no other voter has that snapshot, replace this replica by one with an empty disk; it fetches"
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
    for offset, data in segment.control_batches():
        opened.control_batches.append(_checked(data, offset, opened.epoch_starts, segment))
    opened.end_offset = end_offset
    opened.sealed.append(segment)


def _scan(opened: OpenedSegments, segment: Segment, synced: KnownSynced, *, is_last: bool) -> bool:
    """Whether the segment is complete; False: the log ends in it."""
    scan = segment.load(_last_epoch(opened), synced)
    opened.epoch_starts += scan.epoch_starts
    opened.control_batches += scan.control_batches
    opened.end_offset = scan.end_offset
    opened.scanned.append(segment)
    opened.torn_bytes += scan.torn_bytes
    if scan.torn_bytes and not is_last and not _ends_here(opened, synced):
        raise StorageFailure(f"{segment.path} is damaged before the end of the log")
    return not scan.torn_bytes


def _ends_here(opened: OpenedSegments, synced: KnownSynced) -> bool:
    """Whether it is known that nothing from here on was ever synced."""
    return synced.verdict(opened.end_offset, _last_epoch(opened)) is Verdict.NEVER_SYNCED


def _drop_segments(
    opened: OpenedSegments, directory: Path, bases: list[int], files: FileSystem
) -> None:
    """Newest first: if this is interrupted, the log ends at the same offset."""
    for base in reversed(bases):
        path = directory / f"{base:020d}{SUFFIX}"
        opened.torn_bytes += files.size_of(path)
        files.unlink(seal_path(path), missing_ok=True)
        files.unlink(path)
        opened.names_changed = True


def _raise_by_seals(
    directory: Path, bases: list[int], synced: KnownSynced, files: FileSystem
) -> KnownSynced:
    """A seal proves that its segment, all segments before it, and the name of the next one were synced."""
    for base, following in reversed(list(pairwise(bases))):
        seal = read_seal(directory / f"{base:020d}{SUFFIX}", files)
        if seal is not None and seal.end_offset == following:
            return replace(synced, proven_offset=max(synced.proven_offset, following))
    return synced


def open_as_recorded(
    directory: Path, recorded: RecordedEnd | None, synced_offset: int, files: FileSystem = POSIX
) -> OpenedSegments:
    """Open every segment, with the known synced end. Raises StorageFailure, DiskFull and OSError.

    `recorded`: content of `synced-end`. `synced_offset`: everything below it is known from
    elsewhere to be synced.
    """
    if recorded is None:
        return open_segments(directory, 0, files, KnownSynced(synced_offset))
    cut_bytes = 0
    if recorded.failed:
        cut_bytes = cut_unsynced(directory, recorded.end_offset, files)
    synced = KnownSynced(synced_offset, recorded.end_offset, recorded.epoch)
    opened = open_segments(directory, 0, files, synced)
    if synced.lacks(opened.end_offset, _last_epoch(opened)):
        raise LogCutShort(directory, opened.end_offset, synced)
    opened.torn_bytes += cut_bytes
    return opened


def cut_unsynced(directory: Path, end_offset: int, files: FileSystem = POSIX) -> int:
    """After a failed sync: truncate the data that may not be durable, before it is read. The truncation
    is durable.

    Returns the number of truncated bytes. Raises StorageFailure if the log is damaged before that,
    and OSError.
    """
    bases = segment_bases(files.names(directory))
    keep = [base for base in bases if base <= end_offset or base == bases[0]]
    dropped = OpenedSegments()
    _drop_segments(dropped, directory, bases[len(keep) :], files)
    for base in keep[-1:]:
        segment = Segment(directory, base, files)
        try:
            size_bytes = files.size_bytes(segment.fd)
            scan = segment.scan(
                -1, KnownSynced(proven_offset=end_offset, recorded_offset=end_offset)
            )
            if scan.end_offset > end_offset:
                segment.truncate_to(end_offset)
            segment.cut()
            segment.sync()
            dropped.torn_bytes += size_bytes - segment.size_bytes
        finally:
            segment.close()
    sync_directory(directory, files)
    return dropped.torn_bytes


def _refuse_sealed_last(segment: Segment) -> None:
    """A sealed segment can't be the last one: its seal was written after the next segment's name
    was durable.
    """
    seal = read_seal(segment.path, segment.files)
    if seal is not None:
        raise StorageFailure(
            f"{segment.path} is sealed: a segment from offset {seal.end_offset} on must follow, but it is missing, and acknowledged records with it"
        )


def _last_epoch(opened: OpenedSegments) -> int:
    return opened.epoch_starts[-1][0] if opened.epoch_starts else -1


def _checked(data: bytes, offset: int, epoch_starts: EpochStarts, segment: Segment) -> bytes:
    """Verify a control batch of a sealed segment now instead of in the scrub, as voter sets are
    taken from it.

    Its offset and epoch, which no checksum covers, determine the latest voters and the leader of an
    epoch.
    """
    check_batches(data, offset, epoch_starts, f"a control batch in {segment.path}")
    batches, _ = split_batches(data)
    if len(batches) != 1 or batches[0].header.base_offset != offset:
        raise StorageFailure(f"a control batch in {segment.path} is not where its seal says")
    return data


def _drop_orphan_seals(directory: Path, bases: list[int], files: FileSystem) -> None:
    """Remove seals without a segment: a process was killed while it deleted a prefix."""
    kept = {f"{base:020d}" for base in bases}
    for name in files.names(directory):
        if name.endswith(SEAL_SUFFIX) and name.removesuffix(SEAL_SUFFIX) not in kept:
            files.unlink(directory / name)
