"""The segments of one replica's log, and their partition into spans that can be read in parallel.

Owns finding files and cutting spans. Reads only headers; `log_span.py` reads the batches. Source: Kafka's log layout
(`%020d.log`, named after the first offset); KIP-595, "Log".
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from quorum_node.records.snapshot_id import SnapshotId, parse_snapshot_name
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.recorded_end import RecordedEnd, recorded_end
from quorum_pipeline.files.segment_borders import (
    Border,
    Segment,
    border_at,
    border_before,
    is_far,
    walked,
)

PARTITION_DIRECTORY = "__cluster_metadata-0"
SUFFIX = ".log"
_ANY = 1 << 62
"""Greater than any offset."""


@dataclass(frozen=True, slots=True)
class LogSpan:
    """A part of a segment that begins with a batch. `end_offset` None: up to the last complete batch.

    It has no bytes if all of its offsets are missing.

    `is_last`: it is the end of the log, so an incomplete batch is being written.
    """

    path: str
    position: int
    end_position: int
    base_offset: int
    end_offset: int | None
    is_last: bool


@dataclass(frozen=True)
class LogDirectory:
    """Content of the directory of the metadata partition; `segments` and `snapshots` are sorted.

    `recorded`: the end that the node recorded, None for directories of other software.
    """

    path: Path
    segments: tuple[Segment, ...]
    snapshots: tuple[SnapshotId, ...]
    recorded: RecordedEnd | None = None

    @property
    def start_offset(self) -> int:
        """First offset of the log; that of the newest snapshot if there is no segment."""
        if self.segments:
            return self.segments[0].base_offset
        return self.snapshots[-1].end_offset

    def end_offset(self) -> int:
        """End offset of the last complete batch, by the headers."""
        if not self.segments:
            return self.start_offset
        return self.tail.base_offset

    def committed_end_offset(self) -> int | None:
        """The offset below which all records are known to be committed; None if the directory does not record it.

        A node records it at least once a second while records arrive. Snapshots contain only committed records.
        """
        if self.recorded is None or self.recorded.committed_end == 0:
            return None
        snapshot = self.snapshots[-1].end_offset if self.snapshots else 0
        return min(max(self.recorded.committed_end, snapshot), self.end_offset())

    def known_committed_end(self) -> int:
        """Like `committed_end_offset`; of a directory that does not record it, the end of the newest snapshot, or 0."""
        committed = self.committed_end_offset()
        if committed is None:
            return self.snapshots[-1].end_offset if self.snapshots else 0
        return committed

    def readable_end_offset(self) -> int:
        """Where reading ends if no end is specified: after the last record that is known to be committed, or after
        the last complete batch if the directory does not record what is committed.
        """
        committed = self.committed_end_offset()
        return self.end_offset() if committed is None else committed

    def uncommitted_end(self) -> str | None:
        """A note on records at the end of the log that may not be committed; None if there are none."""
        committed, end = self.committed_end_offset(), self.end_offset()
        if committed is None:
            return (
                f"{self.path} does not record which records are committed; all of its records are read, and the last "
                "ones may be replaced later"
            )
        if committed == end:
            return None
        return (
            f"{self.path} ends at offset {end}, but only records below offset {committed} are known to be committed;"
            " the others are not read unless you specify an end offset"
        )

    @cached_property
    def tail(self) -> LogSpan:
        """Bytes behind the last complete batch, usually none. There has to be a segment."""
        last = self.segments[-1]
        end = border_before(last, _ANY)
        for border in walked(last, end):
            end = border
        return LogSpan(str(last.path), end[0], last.size_bytes, end[1], None, is_last=True)

    def spans(
        self, start_offset: int, target_bytes: int, limit: int | None = None
    ) -> Iterator[LogSpan]:
        """Split the log from the batch with `start_offset` on into spans of about `target_bytes`, with only batches that begin
        below `limit`. The work depends on the number of spans, and not on the length of the log.
        """
        for segment in self.segments:
            if segment.end_offset is not None and segment.end_offset <= start_offset:
                continue
            if limit is not None and segment.base_offset >= limit:
                return
            yield from _cut(segment, start_offset, target_bytes, limit)


def open_log(path: Path) -> LogDirectory:
    """Open the log in this directory, or in its subdirectory `__cluster_metadata-0`. Raises PipelineError."""
    if not path.exists():
        raise PipelineError(f"{path} does not exist")
    if not path.is_dir():
        raise PipelineError(f"{path} is not a directory; specify the directory with the segments")
    inner = path / PARTITION_DIRECTORY
    directory = inner if inner.is_dir() else path
    # Before the segments, which may grow meanwhile: so a log is never shorter than what was recorded of it.
    recorded = recorded_end(directory)
    segments, snapshots = [], []
    for found in sorted(directory.iterdir()):
        stem = found.name.removesuffix(SUFFIX)
        if stem != found.name and len(stem) == 20 and stem.isdigit():
            with suppress(FileNotFoundError):  # deleted since it was listed, behind a snapshot
                segments.append(Segment(found, int(stem), found.stat().st_size))
        elif (snapshot := parse_snapshot_name(found.name)) is not None:
            snapshots.append(snapshot)
    if not segments and not snapshots:
        raise PipelineError(
            f"{directory} is not a metadata log: it contains neither segments (20 digits and {SUFFIX})"
            " nor snapshots (.checkpoint)"
        )
    for number, following in enumerate(segments[1:]):
        segments[number] = replace(segments[number], end_offset=following.base_offset)
    return LogDirectory(directory, tuple(segments), tuple(sorted(snapshots)), recorded)


def _cut(
    segment: Segment, start_offset: int, target_bytes: int, limit: int | None
) -> Iterator[LogSpan]:
    """Split a segment. Damage is within a span, or at the end of the last one; reading the span reports it.

    Where records are missing without a byte in their place, as at the end of a truncated segment, the last span may be
    empty: it has the offsets that reading it reports as missing.
    """
    start = border_before(segment, start_offset)
    for border in walked(segment, start):
        if border[1] > start_offset:
            break
        if border[1] > start[1]:  # else only damage is before it, which belongs to the first span
            start = border
    stop = None if limit is None else _stop(segment, start, limit)
    for begin, end in pairwise([start, *_far(segment, start, target_bytes, stop)]):
        yield _span(segment, begin, end)
        start = end
    for border in walked(segment, start):
        # Less than a span is left: where it ends is known.
        if stop is None and segment.size_bytes - start[0] < target_bytes:
            break
        if stop is not None and stop[0] - start[0] <= target_bytes:
            break
        if border[0] - start[0] >= target_bytes:
            yield _span(segment, start, border)
            start = border
    if stop is not None:
        if start < stop:
            yield _span(segment, start, stop)
    elif start[0] < segment.size_bytes or segment.end_offset not in (None, start[1]):
        path, is_last = str(segment.path), segment.end_offset is None
        yield LogSpan(path, start[0], segment.size_bytes, start[1], segment.end_offset, is_last)


def _far(
    segment: Segment, start: Border, target_bytes: int, stop: Border | None
) -> Iterator[Border]:
    """Yield borders that are `target_bytes` apart, without the headers between them; none from damage on, and none near the end."""
    if not is_far(target_bytes):
        return  # as many headers would be read
    size_bytes = segment.size_bytes if stop is None else stop[0]
    while start[0] + target_bytes < size_bytes:
        found = border_at(segment, start[0] + target_bytes)
        if found is None or found[1] <= start[1] or found[0] >= size_bytes:
            return
        yield found
        start = found


def _stop(segment: Segment, start: Border, limit: int) -> Border | None:
    """Return the first border with this offset or a greater one; None if there is none."""
    near = max(start, border_before(segment, limit))
    if near > start and near[1] >= limit:
        return near
    return next((each for each in walked(segment, near) if each[1] >= limit), None)


def _span(segment: Segment, begin: Border, end: Border) -> LogSpan:
    return LogSpan(str(segment.path), begin[0], end[0], begin[1], end[1], is_last=False)
