"""Origins of the records of `metadata_log`: a directory, or a running quorum. One interface for batch and stream.

Owns how offsets are divided into tasks. A task contains everything that is needed to read its rows on another machine.

Spark starts a Python process for each call of a source, so the record decoders and the client of a quorum are imported
only where they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pyspark.sql.datasource import InputPartition

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogSpan, open_log
from quorum_pipeline.files.log_span import PlacedBatch, damaged_tail, read_span
from quorum_pipeline.live.controllers import Controllers
from quorum_pipeline.spark.options import NO_END, LogOptions
from quorum_pipeline.spark.requested_columns import requested_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from quorum_pipeline.files.archived_batch import BatchIdentity
    from quorum_pipeline.rows.gathering import AnyRows

_OFFSETS_OF_A_TASK = 200_000
_ANY_BYTES = 1 << 62
"""More than any segment has."""


class LogTask(InputPartition):
    """One task of a query."""

    def batches(self, schema: StructType, *, keep_problems: bool) -> Iterator[pa.RecordBatch]:
        """Yield its records, with the columns of the schema. Raises PipelineError, OSError."""
        raise NotImplementedError


class DecodingTask(LogTask):
    """A task that decodes records."""

    def batches(self, schema: StructType, *, keep_problems: bool) -> Iterator[pa.RecordBatch]:
        """See LogTask."""
        from quorum_pipeline.rows.arrow import record_batch
        from quorum_pipeline.rows.table import table_columns

        requested = requested_columns(schema, table_columns())
        for rows in self.rows(keep_problems=keep_problems):
            yield record_batch(rows, requested)

    def rows(self, *, keep_problems: bool) -> Iterator[AnyRows]:
        """Yield its records as blocks of rows. Raises PipelineError, OSError."""
        raise NotImplementedError


class Origin(Protocol):
    """A log with a current range of offsets."""

    name: str

    def bounds(self) -> tuple[int, int]:
        """Return the current start offset, and end offset (exclusive). Raises PipelineError."""

    def tasks(self, start: int, end: int, least: int = 1) -> Sequence[LogTask]:
        """Return tasks that together read these offsets: at least `least`, if there are as many batches or records."""

    def batch_at(self, offset: int) -> BatchIdentity | None:
        """Return the batch with this offset, or None if it can't be read. Raises PipelineError."""

    def stamp(self, offset: int) -> list[int] | None:
        """Return epoch and CRC of the batch with this offset; None if it is not there, or can't be replaced by another one."""

    def check_end(self) -> None:
        """Raise PipelineError if there is damage after the end: the number of lost records is then unknown."""


def origin_of(options: LogOptions) -> Origin:
    """Return the origin that the options name."""
    if options.path is not None:
        return DirectoryOrigin(
            options.path, options.span_bytes, uncommitted=options.end_offset != NO_END
        )
    assert options.controllers is not None  # exactly one of the two is set
    return QuorumOrigin(options.controllers)


@dataclass(frozen=True)
class SpanTask(DecodingTask):
    """A task that reads a piece of a segment."""

    span: LogSpan
    start: int
    end: int

    def rows(self, *, keep_problems: bool) -> Iterator[AnyRows]:
        """See DecodingTask."""
        from quorum_pipeline.files.log_rows import span_rows

        return span_rows(self.span, self.start, self.end, keep_problems=keep_problems)


@dataclass(frozen=True)
class FetchTask(DecodingTask):
    """A task that reads committed offsets from the log of a running quorum."""

    controllers: Controllers
    start: int
    end: int

    def rows(self, *, keep_problems: bool) -> Iterator[AnyRows]:
        """See DecodingTask."""
        from quorum_pipeline.live.live_rows import live_rows

        with closing(self.controllers.open()) as quorum:
            yield from live_rows(quorum, self.start, self.end, keep_problems=keep_problems)


class DirectoryOrigin:
    """The log of one replica. `uncommitted`: also the records that are not known to be committed."""

    def __init__(self, path: Path, span_bytes: int, *, uncommitted: bool = False) -> None:
        self.name = f"the log of {path}"
        self._uncommitted = uncommitted
        self._path = path
        self._span_bytes = span_bytes

    def bounds(self) -> tuple[int, int]:
        """See Origin."""
        log = open_log(self._path)
        return (
            log.start_offset,
            log.end_offset() if self._uncommitted else log.readable_end_offset(),
        )

    def tasks(self, start: int, end: int, least: int = 1) -> Sequence[LogTask]:
        """See Origin."""
        log, span_bytes = open_log(self._path), self._span_bytes
        if least > 1:
            # of the bytes of these offsets at most, so there may be more tasks
            whole = log.spans(start, _ANY_BYTES, end)
            size_bytes = sum(each.end_position - each.position for each in whole)
            span_bytes = min(span_bytes, max(size_bytes // least, 1))
        spans = log.spans(start, span_bytes)
        return [
            SpanTask(span, start, end)
            for span in takewhile(lambda span: span.base_offset < end, spans)
        ]

    def batch_at(self, offset: int) -> BatchIdentity | None:
        """See Origin."""
        from quorum_pipeline.files.archived_batch import BatchIdentity

        found = self.stamp(offset)
        return None if found is None else BatchIdentity(*found)

    def stamp(self, offset: int) -> list[int] | None:
        """See Origin."""
        for span in islice(open_log(self._path).spans(offset, 1), 1):
            for found in read_span(span):
                if not isinstance(found, PlacedBatch):
                    continue
                header = found.batch.header
                if header.end_offset > offset:
                    is_it = header.base_offset <= offset  # else the record is missing
                    return [header.leader_epoch, header.crc] if is_it else None
        return None

    def check_end(self) -> None:
        """See Origin."""
        damage = damaged_tail(open_log(self._path))
        if damage is not None:
            raise PipelineError(
                f"{damage}, and later records can't be read: read another replica from that offset on"
            )


class QuorumOrigin:
    """The committed log of a quorum, read from its leader."""

    def __init__(self, controllers: Controllers) -> None:
        self.name = f"the log of {controllers.name}"
        self._controllers = controllers

    def bounds(self) -> tuple[int, int]:
        """See Origin."""
        with closing(self._controllers.open()) as quorum:
            found = quorum.committed()
        return found.start_offset, found.end_offset

    def tasks(self, start: int, end: int, least: int = 1) -> Sequence[LogTask]:
        """See Origin."""
        step = min(_OFFSETS_OF_A_TASK, -(-(end - start) // least)) or 1
        return [
            FetchTask(self._controllers, begin, min(begin + step, end))
            for begin in range(start, end, step)
        ]

    def batch_at(self, offset: int) -> BatchIdentity | None:
        """See Origin."""
        from quorum_pipeline.files.archived_batch import BatchIdentity

        with closing(self._controllers.open()) as quorum:
            batches = quorum.read(offset, offset + 1)
        if not batches:
            return None
        header = batches[0].header
        return BatchIdentity(header.leader_epoch, header.crc)

    def stamp(self, offset: int) -> list[int] | None:
        """See Origin. Only committed records are read."""
        return None

    def check_end(self) -> None:
        """See Origin. Nothing to check: a leader verifies the batches that it reads."""


def check_start(origin: Origin, wanted: int) -> None:
    """Raise PipelineError if the log begins after the wanted offset."""
    start, end = origin.bounds()
    if wanted < start:
        raise PipelineError(
            f"{origin.name} has no offset {wanted}: it begins at {start} and ends at {end}; earlier "
            "records are in a snapshot"
        )


def check_history(
    origin: Origin, archived_end: int, batch_of: Callable[[int], BatchIdentity | None]
) -> None:
    """Raise PipelineError if an archive that ends at `archived_end` has another history than the log.

    The newest record that both have is compared. A directory may have contained records that were never committed, and
    now have other records at these offsets.
    """
    start, end = origin.bounds()
    offset = min(archived_end, end) - 1
    ours = batch_of(offset) if offset >= start else None
    theirs = origin.batch_at(offset) if ours is not None else None
    if theirs is not None and ours != theirs:
        raise PipelineError(
            f"the archive is not of {origin.name}: at offset {offset} it has a batch of {ours}, but the "
            f"log one of {theirs}. The archived records were never committed, or belong to another cluster: archive "
            "this log into an empty directory"
        )
