"""Opens a partition's directory: finishes an interrupted compaction, trusts synced segments, scans
the others.

Owns the order of recovery. Below the recovery point, and after a clean stop, files are trusted, and
missing indexes are rebuilt. Above it each batch is checked. The first invalid one ends the log, and
everything after it is removed. An invalid batch that was synced is damage and is never truncated.
Source: the rules of a stock broker (`LogLoader`).
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from quorum_node.broker.epoch_history import EpochHistory
from quorum_node.records.batches import CorruptBatch
from quorum_node.records.snapshot_id import MAX_OFFSET
from quorum_node.storage.atomic_file import TEMP_SUFFIX, sync_data, sync_directory
from quorum_node.storage.broker.batch_walk import BrokenBatch, walk
from quorum_node.storage.broker.data_segment import (
    LARGEST_RELATIVE_OFFSET,
    SUFFIX,
    SUFFIXES,
    Appended,
    DataSegment,
)
from quorum_node.storage.broker.errors import HOW_TO_REPLACE, DamagedLog
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.producer_copies import ProducerCopies
from quorum_node.storage.broker.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from quorum_node.storage.broker.producer_snapshot import read_snapshot, snapshot_path
from quorum_node.storage.broker.producer_table import ProducerTable
from quorum_node.storage.broker.producer_walk import follow_in_segment
from quorum_node.storage.broker.removals import DELETED_SUFFIX
from quorum_node.storage.file_system import FileSystem
from quorum_node.storage.leader_epochs import FILE_NAME as EPOCHS_FILE
from quorum_node.storage.leader_epochs import DamagedCheckpoint, read_checkpoint, write_checkpoint
from quorum_node.storage.partition_metadata import FILE_NAME as TOPIC_ID_FILE

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
_TEMPORARY = frozenset(name + TEMP_SUFFIX for name in (EPOCHS_FILE, TOPIC_ID_FILE))
_SEGMENT_FILE = re.compile(
    r"([0-9]{20})\.(?:log|index|timeindex|txnindex|snapshot)(?:\.cleaned|\.swap|\.deleted)?"
)


@dataclass(frozen=True, slots=True)
class Known:
    """The partition's entries in the checkpoints of the log directory."""

    recovery_point: int = 0
    start_offset: int = 0
    was_closed: bool = False
    """Whether the last process stopped cleanly."""
    cleaned_offset: int = 0
    """First dirty offset: compaction may have removed records before it."""


UNKNOWN = Known()


@dataclass(slots=True)
class LoadedLog:
    """The result. `notes`: messages about repairs."""

    segments: list[DataSegment]
    start_offset: int
    end_offset: int
    recovery_point: int
    epochs: EpochHistory
    producers: ProducerTable
    snapshots: list[int]
    copies: ProducerCopies
    notes: list[str] = field(default_factory=list)


def segment_offset(name: str) -> int | None:
    """The base offset in the name of a segment's file; None for a file that is not the log's."""
    found = _SEGMENT_FILE.fullmatch(name)
    return int(found[1]) if found and int(found[1]) <= MAX_OFFSET else None


class LogLoader:
    """State of opening one directory."""

    __slots__ = (
        "_clock_ms",
        "_copies",
        "_directory",
        "_epochs",
        "_files",
        "_known",
        "_names",
        "_notes",
        "_segments",
        "_settings",
    )

    def __init__(
        self, files: FileSystem, directory: Path, settings: LogSettings, known: Known, now_ms: int
    ) -> None:
        self._files = files
        self._directory = directory
        self._settings = settings
        self._known = known
        self._clock_ms = now_ms
        self._notes: list[str] = []
        self._names: set[str] = set()
        self._segments: list[DataSegment] = []
        self._epochs = EpochHistory()
        self._copies = ProducerCopies()

    def load(self) -> LoadedLog:
        """Open the log. Raises OSError, DamagedLog, StorageFailure."""
        self._finish_renames()
        known_epochs = self._read_epochs()
        bases = sorted(
            offset
            for name in self._names
            if name.endswith(SUFFIX) and (offset := segment_offset(name)) is not None
        )
        self._remove_orphans(set(bases))
        snapshots = sorted(
            offset
            for name in self._names
            if name.endswith(SNAPSHOT_SUFFIX) and (offset := segment_offset(name)) is not None
        )
        try:
            producers = self._open_segments(bases, snapshots)
        except BaseException:
            self._close()
            raise
        end_offset = self._segments[-1].end_offset
        if end_offset < self._known.recovery_point:
            self._close()
            raise DamagedLog(
                f"the log in {self._directory} ends at offset {end_offset}, but it was synced up to {self._known.recovery_point}: the disk has lost data. {HOW_TO_REPLACE}"
            )
        start_offset = max(self._known.start_offset, self._segments[0].base_offset)
        if self._known.was_closed:
            recovery_point = end_offset
        else:
            recovery_point = min(self._known.recovery_point, end_offset)
            self._epochs.cut_end(end_offset)
        self._epochs.cut_start(start_offset)
        if self._epochs.starts != known_epochs:
            write_checkpoint(self._directory, list(self._epochs.starts), self._files)
        snapshots = self._drop_snapshots(snapshots, bases, end_offset)
        return LoadedLog(
            self._segments, start_offset, end_offset, recovery_point, self._epochs, producers,
            snapshots, self._copies, self._notes,
        )  # fmt: skip

    def _close(self) -> None:
        for segment in self._segments:
            segment.close()

    def _read_epochs(self) -> tuple[tuple[int, int], ...] | None:
        """The epochs in the checkpoint; None if it is damaged. Then they are rebuilt from the log."""
        try:
            self._epochs = EpochHistory(read_checkpoint(self._directory, self._files))
        except DamagedCheckpoint as error:
            self._notes.append(f"{error}. The epochs are rebuilt from the log")
            return None
        return self._epochs.starts

    # -- names

    def _finish_renames(self) -> None:
        """Complete the finished part of an interrupted compaction, and remove the rest."""
        everything = self._files.names(self._directory)
        names = [name for name in everything if segment_offset(name) is not None]
        cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
        swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
        first_cleaned = min((segment_offset(name) or 0 for name in cleaned), default=None)
        going = [name for name in names if name.endswith(DELETED_SUFFIX)] + cleaned
        going += [name for name in everything if name in _TEMPORARY]
        if first_cleaned is not None:
            # Some files are not renamed yet: the old segments still exist.
            half = [name for name in swaps if (segment_offset(name) or 0) >= first_cleaned]
            going += half
            swaps = [name for name in swaps if name not in half]
        for name in going:
            self._files.unlink(self._directory / name)
        if swaps:
            self._swap(names, swaps)
        if going or swaps:
            sync_directory(self._directory, self._files)
            names = self._files.names(self._directory)
        self._names = set(names)

    def _swap(self, names: list[str], swaps: list[str]) -> None:
        """Replace segments by compacted ones."""
        first, behind = None, -1
        for name in swaps:
            base = segment_offset(name)
            if base is None or not name.endswith(SUFFIX + SWAP_SUFFIX):
                continue
            segment = DataSegment(
                self._files, self._directory, base,
                index_interval_bytes=self._settings.index_interval_bytes,
                now_ms=self._clock_ms, suffix=SWAP_SUFFIX,
            )  # fmt: skip
            try:
                segment.adopt_content()
            finally:
                segment.close()
            first = base if first is None else min(first, base)
            behind = max(behind, segment.end_offset)
        if first is not None:
            for name in names:
                offset = segment_offset(name)
                if offset is not None and name.endswith(SUFFIXES) and first <= offset < behind:
                    self._files.unlink(self._directory / name)
        for name in sorted(swaps, key=lambda each: each.endswith(SUFFIX + SWAP_SUFFIX)):
            self._files.rename(
                self._directory / name, self._directory / name.removesuffix(SWAP_SUFFIX)
            )
        self._notes.append("an interrupted compaction was completed")

    def _remove_orphans(self, bases: set[int]) -> None:
        """Indexes without a segment."""
        for name in sorted(self._names):
            base = segment_offset(name)
            if name.endswith(SUFFIXES[1:]) and base is not None and base not in bases:
                self._files.unlink(self._directory / name)

    def _drop_snapshots(self, snapshots: list[int], bases: list[int], end_offset: int) -> list[int]:
        """Keep the snapshots at the start of a segment, and those in the last segment, which a clean stop writes."""
        start_offset, last_offset = self._segments[0].base_offset, self._segments[-1].base_offset
        kept = [offset for offset in snapshots if start_offset <= offset <= end_offset]
        in_last = [offset for offset in kept if offset >= last_offset]
        useful = {*bases, *in_last, *kept[-1:]}.intersection(kept)
        for offset in snapshots:
            if offset not in useful:
                self._files.unlink(snapshot_path(self._directory, offset), missing_ok=True)
        return [offset for offset in kept if offset in useful]

    # -- content

    def _open_segments(self, bases: list[int], snapshots: list[int]) -> ProducerTable:
        """Open all segments and scan those that need it; returns the state of producers at the end."""
        anew = set()
        for base in bases:
            segment = self._segment(base)
            self._segments.append(segment)
            if not segment.adopt_indexes():
                anew.add(base)
        if not self._known.was_closed:
            unflushed = [base for base in bases if base >= self._known.recovery_point]
            before = [base for base in bases if base < self._known.recovery_point]
            anew.update(before[-1:], unflushed)
        if not self._epochs.starts:
            # leader-epoch-checkpoint is missing. A replica without epochs would truncate to its high watermark.
            anew.update(bases)
        for number, segment in enumerate(self._segments):
            if segment.base_offset not in anew:
                if number + 1 < len(bases):
                    segment.adopt_closed(bases[number + 1])
                else:
                    segment.adopt_content()
        first = min(anew, default=None)
        if first is None and bases:
            first = self._segments[-1].end_offset
        producers = self._producers_at(first or 0, snapshots)
        self._read_on(producers, anew)
        if not self._segments or self._segments[-1].end_offset < self._known.start_offset:
            producers = self._begin_at(self._known.start_offset)
        return producers

    def _segment(self, base: int) -> DataSegment:
        return DataSegment(
            self._files, self._directory, base,
            index_interval_bytes=self._settings.index_interval_bytes, now_ms=self._clock_ms,
        )  # fmt: skip

    def _producers_at(self, offset: int, snapshots: list[int]) -> ProducerTable:
        """State of producers at `offset`: from the newest snapshot at or before it, else from the
        start of the log.

        After a snapshot before the start, batches are missing: a transaction that ended in them would be open for good.
        """
        start_offset = self._segments[0].base_offset if self._segments else offset
        for at in reversed([each for each in snapshots if start_offset <= each <= offset]):
            states = read_snapshot(self._files, snapshot_path(self._directory, at))
            if states is not None:
                table = ProducerTable(at, states)
                table.expire(self._clock_ms, self._settings.producer_id_expiration_ms)
                return table
            self._notes.append(
                f"the snapshot of producers at offset {at} is damaged and is ignored"
            )
            self._files.unlink(snapshot_path(self._directory, at), missing_ok=True)
            snapshots.remove(at)
        first = self._segments[0].base_offset if self._segments else 0
        return ProducerTable(max(first, self._known.start_offset))

    def _read_on(self, producers: ProducerTable, anew: set[int]) -> None:
        """Scan segments that need it, and apply the producers' batches of the others."""
        known_to = producers.end_offset
        for number, segment in enumerate(self._segments):
            if self._misses_what_is_before(number):
                self._drop_segments(number)
                break
            if segment.base_offset in anew:
                torn = self._scan(segment, number, producers, known_to)
                if torn:
                    self._drop_segments(number + 1)
                    break
            elif segment.end_offset > known_to:
                for batch in segment.batches(max(known_to, segment.base_offset)):
                    if batch.end_offset > known_to:
                        follow_in_segment(producers, segment, batch)
                        self._copies.applied(batch.size_bytes, producers)
        if self._segments:
            producers.end_offset = max(producers.end_offset, self._segments[-1].end_offset)

    def _misses_what_is_before(self, number: int) -> bool:
        """Whether the previous segment lost an unsynced end. Records after a gap are not served.

        Only compaction leaves a gap between segments on purpose, and not before it has noted how far the log is clean.
        """
        base_offset = self._segments[number].base_offset
        if number == 0 or self._known.was_closed:
            return False
        is_unflushed = base_offset > max(self._known.recovery_point, self._known.cleaned_offset)
        return is_unflushed and self._segments[number - 1].end_offset < base_offset

    def _scan(
        self, segment: DataSegment, number: int, producers: ProducerTable, known_to: int
    ) -> int:
        """Check every batch and rebuild the indexes; returns the number of truncated bytes."""
        size_bytes = self._files.size_bytes(segment.fd)
        # Transactions that were open before are known only if producers are followed from there on.
        table = producers if known_to <= segment.base_offset else ProducerTable()
        segment.clear_indexes()
        problem: object = None
        try:
            for batch in walk(self._files, segment.fd, 0, size_bytes, checked=True):
                if batch.base_offset < segment.end_offset:
                    problem = f"offset {batch.base_offset} follows {segment.end_offset}"
                    break
                if batch.end_offset - segment.base_offset - 1 > LARGEST_RELATIVE_OFFSET:
                    problem = f"offset {batch.end_offset} is too far from the base offset"
                    break
                aborted = follow_in_segment(table, segment, batch)
                if table is not producers and batch.end_offset > known_to:
                    follow_in_segment(producers, segment, batch)
                if table is producers or batch.end_offset > known_to:
                    self._copies.applied(batch.size_bytes, producers)
                if aborted is not None:
                    segment.aborted.append(aborted)
                if batch.leader_epoch > self._epochs.latest:
                    self._epochs.enter(batch.leader_epoch, batch.base_offset)
                segment.note(Appended(batch.size_bytes, batch.end_offset, batch.max_timestamp_ms))
        except (BrokenBatch, CorruptBatch) as error:
            problem = error
        torn = size_bytes - segment.size_bytes
        if problem is not None:
            self._check_unflushed(segment, problem)
            self._notes.append(
                f"{segment.path}: {torn} bytes after offset {segment.end_offset} were never synced and are truncated ({problem})"
            )
            self._files.ftruncate(segment.fd, segment.size_bytes)
            # Otherwise the bytes could reappear after an epoch that begins here.
            sync_data(segment.fd, self._files)
        segment.close_for_appends()
        return torn

    def _check_unflushed(self, segment: DataSegment, problem: object) -> None:
        """Raise DamagedLog if the invalid batch was synced."""
        flushed = segment.end_offset < self._known.recovery_point
        if flushed or self._known.was_closed:
            raise DamagedLog(
                f"{segment.path} is damaged after offset {segment.end_offset}: {problem}. It was synced, so nothing is truncated. {HOW_TO_REPLACE}"
            )

    def _drop_segments(self, number: int) -> None:
        """Remove all segments after the truncated one."""
        for segment in reversed(self._segments[number:]):
            segment.close()
            for path in reversed(segment.paths()):
                self._files.unlink(path, missing_ok=True)
            self._notes.append(f"{segment.path} follows truncated bytes and was removed")
        del self._segments[number:]
        sync_directory(self._directory, self._files)

    def _begin_at(self, offset: int) -> ProducerTable:
        """No segment reaches the log's start offset: start an empty log there."""
        if self._segments:
            self._notes.append(
                f"the log ends before its first offset {offset}: an empty log is started"
            )
            self._epochs.cut_end(0)
        self._drop_segments(0)
        self._copies.drop(lambda _: True)
        segment = self._segment(offset)
        segment.clear_indexes()
        self._segments.append(segment)
        sync_directory(self._directory, self._files)
        return ProducerTable(offset)
