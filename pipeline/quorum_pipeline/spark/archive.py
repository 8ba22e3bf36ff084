"""The archive: writes every record once, range by range, and can be killed at any time.

Owns writing, resuming, merging, and reading archives that are not in the local file system; `files/archive_reader.py`
does the rest, and `archive/layout.py` decides which directories are valid. An archive continues where its complete ranges end; a range
that is incomplete is written again. The workers that decode records also make the files (`part_writer.py`).
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from quorum_pipeline.archive.damage import REPLACED
from quorum_pipeline.archive.layout import (
    DELTAS,
    MARKER,
    QUARANTINE,
    RECORDS,
    SNAPSHOTS,
    WRITING,
    Marker,
    OffsetRange,
    merges,
    parse_directory,
)
from quorum_pipeline.archive.merge_planner import next_merge
from quorum_pipeline.archive.missing_offsets import unexplained
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_lock import only_writer
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.archived_batch import BatchIdentity, identity
from quorum_pipeline.files.merge_retries import retry_on_merge
from quorum_pipeline.files.sealed_file import seal_all, sync_directory, write_marker_text
from quorum_pipeline.files.snapshot_file import SnapshotFile
from quorum_pipeline.files.stored_snapshot import store_snapshot
from quorum_pipeline.redaction import redacted
from quorum_pipeline.rows.column_types import arrow_schema
from quorum_pipeline.rows.table import table_columns, table_ddl
from quorum_pipeline.spark.archive_claim import Claim
from quorum_pipeline.spark.hadoop_files import HadoopFiles
from quorum_pipeline.spark.merged_ranges import retire
from quorum_pipeline.spark.options import log_options
from quorum_pipeline.spark.origins import Origin, check_history, check_start, origin_of
from quorum_pipeline.spark.parquet_files import read_parquet
from quorum_pipeline.spark.part_writer import Stage, stages, store_tasks, write_tasks
from quorum_pipeline.spark.reason import SparkError, failure_of
from quorum_pipeline.spark.stages import SparkStages, progress_of
from quorum_pipeline.spark.step import Step, load_of
from quorum_pipeline.spark.stored_files import FileStore
from quorum_pipeline.spark.stored_states import (
    STATE_ROWS,
    compose_deltas,
    expire_states,
    keep_state,
)

_COLUMNS = table_ddl("data")
"""Columns left out of archives: the JSON form duplicates the typed column and takes most of the time."""
_ARROW_COLUMNS = arrow_schema(
    {name: kind for name, kind in table_columns().items() if name != "data"}
)

_FILES = "files"
"""Directory of files that executors of a file system that they do not mount are writing."""
_GROUP = "quorum-pipeline archive"
"""Group of Spark's jobs that write a range."""


@dataclass(frozen=True, slots=True)
class _Written:
    """Numbers of rows of a range, including those in quarantine, and its first and last offset."""

    rows: int
    quarantined: int
    least: int | None
    most: int | None
    delta_rows: int = 0


class Archive(ArchiveReader):
    """An archive at any URI that Hadoop supports."""

    _files: HadoopFiles

    def __init__(self, session: SparkSession, uri: str) -> None:
        super().__init__(HadoopFiles(session.sparkContext), uri)
        self._session = session
        self._origin: Origin | None = None
        self._written: OffsetRange | None = None
        self._claim: Claim | None = None
        self.state_rows = STATE_ROWS
        """Minimum number of delta rows after which a whole state is written."""
        self.keep_days: int | None = None
        """Of whole states that are older, only the last one of each day is kept; None: all are."""
        self.written_bytes = 0
        """Size of the files of records that `write` has written."""
        self._step = Step()

    def stages(self) -> list[Stage]:
        """Return Spark's active stages."""
        return stages(self._session.sparkContext)

    def progress(self) -> str | None:
        """Describe the range that is being written, and how much of it is done; None between two. For another thread."""
        return progress_of(self._session.sparkContext, self._step)

    def cancel(self) -> None:
        """Cancel the jobs of `write`, which another thread has called: it raises an error."""
        self._session.sparkContext.cancelJobGroup(_GROUP)

    def begin(self, options: dict[str, str]) -> tuple[Origin, int]:
        """Return the source that these options of `metadata_log` name, and the offset at which the archive continues.

        Raises PipelineError if the source has another history, or no longer the next records.
        """
        origin = origin_of(log_options(options))
        self._origin, self._written = origin, None
        archived = self.contents()
        if not archived.ranges:
            return origin, origin.bounds()[0]
        check_history(origin, archived.end, self.batch_of)
        check_start(origin, archived.end)
        return origin, archived.end

    def read(self, end_offset: int | None = None) -> DataFrame:
        """Return the valid records below an offset. Raises PipelineError if there are none, or a file is missing."""
        return retry_on_merge((self,), partial(self._read, end_offset))

    def _read(self, end_offset: int | None) -> DataFrame:
        found = self.contents()
        limit = found.end if end_offset is None else end_offset
        self._check_there(found, limit)
        self.check_beginning(found, self.known_end())
        ranges = [each for each in found.ranges if each.start < limit]
        if not ranges:
            raise self._empty()
        for each in ranges:
            self.groups(each)  # a missing file is an error: Spark would read the others
        frame = self._rows(*(self._directory(RECORDS, each) for each in ranges))
        return frame if end_offset is None else frame.where(sf.col("offset") < end_offset)

    def quarantine(self) -> DataFrame | None:
        """Return the records that could not be decoded, or None if there are none."""
        paths = [
            self._directory(QUARANTINE, each)
            for each in self.contents().ranges
            if self.marker(each).quarantined
        ]
        return self._rows(*paths) if paths else None

    def quarantined_places(self, most: int) -> Iterator[str]:
        """Describe the newest `most` records in quarantine: file, byte, offset and problem. Raises PipelineError."""
        with _in_words(f"the quarantine of {self._uri} can't be read"):
            frame = self.quarantine()
            if frame is None:
                return
            columns = frame.select("source", "position", "offset", "problem")
            rows = columns.orderBy(sf.desc("offset")).limit(most).collect()
        for row in reversed(rows):
            yield f"{row.source}, byte {row.position}, offset {row.offset}: {row.problem}"

    def begin_behind(self, snapshot: SnapshotFile) -> None:
        """Store the snapshot with the state before the first record. Raises PipelineError if there are traces of other records."""
        name = snapshot.path.name
        self.check_new(name)
        if self._local is not None:
            store_snapshot(self._local, snapshot.path)
            return
        scratch, directory = f"{self._uri}/{RECORDS}/{WRITING}/{name}", f"{self._uri}/{SNAPSHOTS}"
        self._files.upload(str(snapshot.path.resolve()), scratch)
        self._files.delete(f"{directory}/{name}")  # its writer was killed before the first range
        self._files.move([(scratch, name)], directory)

    def _batch_in(self, range: OffsetRange, offset: int) -> BatchIdentity | None:
        if self._local is not None:
            return super()._batch_in(range, offset)
        with _in_words(f"offset {offset} of {self._uri} can't be read"):
            rows = self._rows(self._directory(RECORDS, range)).where(sf.col("offset") == offset)
            return next(
                (identity(*row) for row in rows.select("epoch", "batch_crc").collect()), None
            )

    def only_writer(self) -> AbstractContextManager[None]:
        """Exclude other writers: a local archive has a lock, elsewhere the writer that begins last is the only one. Raises
        PipelineError if it is locked.
        """
        return self._claimed() if self._local is None else only_writer(self._local)

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        self._claim = Claim(self._files, self._uri)
        self._claim.take()
        try:
            yield
        finally:
            claim, self._claim = self._claim, None
            with suppress(PipelineError):  # the next writer replaces it
                claim.give_back()

    def compact(self, target_rows: int, report: Callable[[str], None]) -> int:
        """Merge adjacent directories into directories of up to `target_rows`; return the number of directories left."""
        for group in merges(self._tiles()[0], target_rows):
            self._merge_group(group, report)
        counting = self._tiles()[0]
        self._retire(counting, 0)
        return len(counting)

    def merge_next(
        self, target_rows: int, keep_seconds: float, report: Callable[[str], None]
    ) -> bool:
        """Merge the small ranges that were written last, if there are enough of them (`archive/merge_planner.py`); return whether
        there were. The parts are kept for readers that have begun with them, in a mounted file system also their records.

        Raises PipelineError.
        """
        counting = self._tiles()[0]
        group = next_merge(counting, target_rows)
        with _in_words(f"small ranges of {self._uri} are not merged"):
            if group:
                named = f"merge offsets {group[0].start} to {group[-1].end} of {self._uri}"
                self._session.sparkContext.setJobGroup(_GROUP, redacted(named))
                self._merge_group(group, report)
                counting = self._tiles()[0]
                report(f"merged: {len(counting)} directories remain")
            self._retire(counting, keep_seconds)
        return bool(group)

    def _merge_group(self, group: list[OffsetRange], report: Callable[[str], None]) -> None:
        merged = OffsetRange(group[0].start, group[-1].end)
        markers = [self.marker(each) for each in group]
        rows = sum(m.rows for m in markers)
        report(f"merging {len(group)} directories with {rows:,} records into {merged.directory}")
        for each in group:
            self.groups(each)  # a missing or damaged file is an error: Spark would merge the others
        for table in (RECORDS, QUARANTINE):
            self._merge(table, group, merged, markers)
        quarantined = sum(m.quarantined for m in markers)
        delta_rows = self._merge_deltas(group, merged)
        for each in group:
            if MARKER not in self._files.list(self._directory(RECORDS, each)):
                raise _another_wrote(each)
        self._complete(merged, Marker(rows, quarantined, delta_rows, merged=len(group)))
        if self._written in group:
            self._written = merged

    def _retire(self, counting: Sequence[OffsetRange], keep_seconds: float) -> None:
        self._check_claim()
        retire(self, counting, keep_seconds, self._files.delete)
        if self._known is not None:
            self._known = {each: self._known[each] for each in counting if each in self._known}

    def _check_claim(self) -> None:
        if self._claim is not None:
            self._claim.check()

    # -- writing

    def write(self, wanted: OffsetRange) -> None:
        """Write the next range of the source given to `begin`.

        Raises PipelineError if records are missing or duplicated, the source or target fails, or there is another writer.
        """
        assert self._origin is not None, "the archive has begun"
        what = f"offsets {wanted.start} to {wanted.end} are not archived in {self._uri}"
        named = f"archive offsets {wanted.start} to {wanted.end} of {self._origin.name}"
        self._session.sparkContext.setJobGroup(_GROUP, redacted(named))
        self._step.describe(named)
        try:
            with _in_words(what):
                self._write_range(self._origin, wanted)
        finally:
            self._step.describe("")

    def _write_range(self, origin: Origin, wanted: OffsetRange) -> None:
        self._check_previous(origin, wanted)
        self._check_claim()
        self._check_alone(wanted)
        for table in (QUARANTINE, DELTAS):
            self._files.delete(self._directory(table, wanted))
        self._files.delete(self._unfinished(wanted))
        written = self._write_tasks(origin, wanted)
        if written.quarantined:
            self._check_gaps(wanted)
        else:
            _check_complete(wanted, written)
        kept = written.rows - written.quarantined
        self._check_alone(wanted)
        self._complete(wanted, Marker(kept, written.quarantined, written.delta_rows))
        self._written = wanted
        files = self._files.stored(self._directory(RECORDS, wanted))
        self.written_bytes += sum(each.size_bytes for each in files)
        self.keep_state()

    def _check_previous(self, origin: Origin, wanted: OffsetRange) -> None:
        """Check that the log still has the records that were written last: it may have been replaced meanwhile. Raises PipelineError."""
        written = self._written
        if written is not None and written.end == wanted.start:
            check_history(origin, written.end, lambda offset: self._batch_in(written, offset))

    def _check_alone(self, wanted: OffsetRange) -> None:
        """Delete later ranges that an older version left incomplete. Raises PipelineError if a later one is complete: it was
        written meanwhile.
        """
        for each in map(parse_directory, self._files.list(f"{self._uri}/{RECORDS}")):
            if each is None or each.end <= wanted.start:
                continue
            directory = self._directory(RECORDS, each)
            if MARKER in self._files.list(directory):
                raise _another_wrote(each)
            self._files.delete(directory)
            # An earlier writer may have written the marker during the deletion; then the range has lost its records.
            self._files.delete(directory)

    def keep_state(self) -> None:
        """Write the whole state at the end if there are many deltas since the last one. Raises PipelineError."""
        stages = SparkStages(self._session.sparkContext)
        if keep_state(stages, self, self.state_rows, self._store()) is not None:
            self.expire_states()

    def expire_states(self) -> int:
        """Delete whole states that are no longer kept; return their number. Raises PipelineError."""
        return (
            0 if self.keep_days is None else expire_states(self, self.keep_days, self._files.delete)
        )

    def _write_tasks(self, origin: Origin, wanted: OffsetRange) -> _Written:
        """Write a range by tasks on executors, which read the source themselves."""
        check_start(origin, wanted.start)
        tasks = origin.tasks(wanted.start, wanted.end)
        self._step.begin(len(tasks), load_of(tasks))
        apart, deltas = (self._directory(table, wanted) for table in (QUARANTINE, DELTAS))
        if self._local is None:
            targets = {RECORDS: self._unfinished(wanted), QUARANTINE: apart, DELTAS: deltas}
            scratch = f"{self._uri}/{RECORDS}/{WRITING}/{_FILES}"
            parts = [store_tasks(self._store(), tasks, _ARROW_COLUMNS, scratch, targets)]
        else:
            root = self._local
            parts = write_tasks(
                self._session.sparkContext,
                tasks,
                _ARROW_COLUMNS,
                root / RECORDS / WRITING / wanted.directory,
                *(root / table / wanted.directory for table in (QUARANTINE, DELTAS)),
            )
        return _Written(
            sum(each.rows + each.quarantined for each in parts),
            sum(each.quarantined for each in parts),
            min((each.least for each in parts if each.least is not None), default=None),
            max((each.most for each in parts if each.most is not None), default=None),
            sum(each.delta_rows for each in parts),
        )

    def _store(self) -> FileStore:
        return FileStore(self._session, self._files)

    def _check_gaps(self, wanted: OffsetRange) -> None:
        """Raise PipelineError if records are missing anywhere but at damage that is in quarantine."""
        kept, apart = (
            self._rows(directory).select("offset").toArrow().column("offset").to_numpy()
            for directory in (self._unfinished(wanted), self._directory(QUARANTINE, wanted))
        )
        missing = unexplained(wanted, kept, apart)
        if missing is not None:
            raise PipelineError(
                f"offset {missing} was missing or duplicated in offsets {wanted.start} to {wanted.end}: {_NONE_ARCHIVED}"
            )

    def _complete(self, range: OffsetRange, marker: Marker) -> None:
        """Write the marker of a range, and give it its name: it counts from then on."""
        text = replace(marker, written_ms=time.time_ns() // 1_000_000).text()
        final = self._directory(RECORDS, range)
        self._check_claim()
        if MARKER in self._files.list(final):
            raise _another_wrote(range)
        self._files.delete(final)  # incomplete, of an older version
        if self._local is None:
            self._complete_elsewhere(range, text)
        else:
            _complete_here(self._local, range, text)
        self._files.delete(f"{self._uri}/{RECORDS}/{WRITING}")

    def _complete_elsewhere(self, range: OffsetRange, text: str) -> None:
        """Complete a range of an archive that is not mounted. Raises PipelineError if another writer has begun.

        An object store renames by copying file after file, which takes long: only a marker that is written later shows that all
        are there. A newer writer deletes a directory without a marker. It has taken its claim before it looks for the marker, so
        that it finds the marker, or the claim is not this writer's any more after the marker was written.
        """
        unfinished, final = self._unfinished(range), self._directory(RECORDS, range)
        written = {each.name for each in self._files.stored(unfinished)}
        self._files.rename(unfinished, final)
        self._check_claim()
        marker = f"{final}/{MARKER}"
        self._files.write(marker, text)
        if {each.name for each in self._files.stored(final)} != written | {MARKER}:
            # Not with all files there: the newer writer may have found the marker, and continue after this range.
            if self._files.read(marker) == text:
                self._files.delete(marker)
            raise _another_wrote(range)
        self._check_claim()

    def _unfinished(self, range: OffsetRange) -> str:
        return f"{self._uri}/{RECORDS}/{WRITING}/{range.directory}"

    def _merge(
        self, table: str, group: list[OffsetRange], merged: OffsetRange, markers: list[Marker]
    ) -> None:
        paths = [
            self._directory(table, each)
            for each, marker in zip(group, markers, strict=True)
            if table == RECORDS or marker.quarantined
        ]
        if paths:
            unfinished = self._unfinished(merged)
            target = unfinished if table == RECORDS else self._directory(table, merged)
            with _in_words(f"{merged.directory} of {self._uri} is not merged"):
                frame = self._rows(*paths).coalesce(1).sortWithinPartitions("offset")
                frame.write.mode("overwrite").parquet(target)
            local = self._files.local_path(target)
            if self._local is not None and local is not None:
                seal_all(local)
            expected = sum(m.rows if table == RECORDS else m.quarantined for m in markers)
            self._check_merged(target.removeprefix(f"{self._uri}/"), expected)

    def _check_merged(self, target: str, expected: int) -> None:
        """Raise PipelineError if merged files have another number of rows than the markers of their parts."""
        found = sum(self.footer(each).num_rows for each in self.parquet_files(target))
        if found != expected:
            raise PipelineError(
                f"{self._uri}/{target} is not merged: it would have {found} records instead of {expected}: {REPLACED}"
            )

    def _merge_deltas(self, group: list[OffsetRange], merged: OffsetRange) -> int:
        """Compose the deltas of adjacent directories; return the number of rows."""
        stages = SparkStages(self._session.sparkContext)
        what = (
            f"the deltas of {merged.directory} of {self._uri} are not merged (without a damaged file of them, states are computed"
            " from the records)"
        )
        with _in_words(what):
            return compose_deltas(stages, self, group, merged, self._store())

    # -- reading

    def _rows(self, *directories: str) -> DataFrame:
        """Read directories with the current columns: columns that an older archive lacks are null, others are dropped."""
        return read_parquet(self._session, _COLUMNS, directories)


def _complete_here(root: Path, range: OffsetRange, text: str) -> None:
    """Complete a range of a mounted archive, so that a power failure leaves it complete or without its name. Raises OSError."""
    records = root / RECORDS
    unfinished = records / WRITING / range.directory
    write_marker_text(unfinished, text)
    beside = [root / table / range.directory for table in (QUARANTINE, DELTAS)]
    written = [each for each in beside if each.is_dir()]
    for each in (unfinished, *written, *(each.parent for each in written)):
        sync_directory(each)
    os.rename(unfinished, records / range.directory)
    for each in (records, root):
        sync_directory(each)


@contextmanager
def _in_words(what: str) -> Iterator[None]:
    """Convert Spark's and the system's errors to a PipelineError of one line: `what`, then the cause."""
    try:
        yield
    except (*SparkError, OSError, EOFError) as error:
        raise PipelineError(f"{what}: {failure_of(error) or error}") from None


def _another_wrote(range: OffsetRange) -> PipelineError:
    return PipelineError(
        f"another process wrote offsets {range.start} to {range.end}: only one may write to an archive"
    )


_NONE_ARCHIVED = (
    "none of them was archived. Run the command again; if it fails again, read another replica"
)


def _check_complete(wanted: OffsetRange, written: _Written) -> None:
    if (written.rows, written.least, written.most) != (len(wanted), wanted.start, wanted.end - 1):
        raise PipelineError(
            f"offsets {wanted.start} to {wanted.end} are {len(wanted)} records, but {written.rows} were read, from "
            f"{written.least} to {written.most}: {_NONE_ARCHIVED}"
        )
