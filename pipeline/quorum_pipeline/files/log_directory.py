"""The segments of one replica's log, and their partition into spans that can be read in parallel.

Owns finding files and batch boundaries. Reads only headers; `log_span.py` reads the batches. Source: Kafka's log
layout (`%020d.log`, named after the first offset); KIP-595, "Log".
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from quorum_node.records.batches import MIN_LENGTH, PREFIX_BYTES, SPAN
from quorum_node.records.snapshot_id import SnapshotId, parse_snapshot_name
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.next_batch import complete_batch, next_batch
from quorum_pipeline.files.recorded_end import RecordedEnd, recorded_end

PARTITION_DIRECTORY = "__cluster_metadata-0"
SUFFIX = ".log"


@dataclass(frozen=True, slots=True)
class LogSpan:
    """A part of a segment that begins with a batch. `end_offset` None: up to the last complete batch.

    `is_last`: it is the end of the log, so an incomplete batch is being written.
    """

    path: str
    position: int
    end_position: int
    base_offset: int
    end_offset: int | None
    is_last: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file and the offset in its name."""

    path: Path
    base_offset: int
    size_bytes: int


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
        """The offset below which all records are known to be committed; None if the directory does not say so.

        A node records it at least once a second while records arrive. Snapshots contain only committed records.
        """
        if self.recorded is None or self.recorded.committed_end == 0:
            return None
        snapshot = self.snapshots[-1].end_offset if self.snapshots else 0
        return min(max(self.recorded.committed_end, snapshot), self.end_offset())

    def readable_end_offset(self) -> int:
        """Where reading ends if no end is specified: after the last record that is known to be committed, or after
        the last complete batch if the directory does not say what is committed.
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
        position, offset = 0, last.base_offset
        for position, offset in _borders(last, None):  # noqa: B007 - the last one is what is wanted
            pass
        return LogSpan(str(last.path), position, last.size_bytes, offset, None, is_last=True)

    def spans(
        self, start_offset: int, target_bytes: int, limit: int | None = None
    ) -> Iterator[LogSpan]:
        """Split the log from the batch with `start_offset` on into spans of about `target_bytes`, with only batches that begin
        below `limit`.
        """
        for index, segment in enumerate(self.segments):
            following = self.segments[index + 1] if index + 1 < len(self.segments) else None
            if following is not None and following.base_offset <= start_offset:
                continue
            if limit is not None and segment.base_offset >= limit:
                return
            end_offset = following.base_offset if following else None
            yield from _cut(segment, start_offset, target_bytes, end_offset, limit)


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
            segments.append(Segment(found, int(stem), found.stat().st_size))
        elif (snapshot := parse_snapshot_name(found.name)) is not None:
            snapshots.append(snapshot)
    if not segments and not snapshots:
        raise PipelineError(
            f"{directory} is not a metadata log: it contains neither segments (20 digits and {SUFFIX})"
            " nor snapshots (.checkpoint)"
        )
    return LogDirectory(directory, tuple(segments), tuple(sorted(snapshots)), recorded)


def _cut(
    segment: Segment,
    start_offset: int,
    target_bytes: int,
    end_offset: int | None,
    limit: int | None,
) -> Iterator[LogSpan]:
    """Split a segment. Damage is within a span, or at the end of the last one; reading the span reports it."""
    position, base = 0, segment.base_offset
    for at, end in _borders(segment, end_offset):
        if end <= start_offset:
            position, base = at, end
        elif limit is not None and end >= limit:
            yield LogSpan(str(segment.path), position, at, base, end, is_last=False)
            return
        elif at - position >= target_bytes:
            yield LogSpan(str(segment.path), position, at, base, end, is_last=False)
            position, base = at, end
    if position < segment.size_bytes:
        path, is_last = str(segment.path), end_offset is None
        yield LogSpan(path, position, segment.size_bytes, base, end_offset, is_last)


def _borders(segment: Segment, end_offset: int | None) -> Iterator[tuple[int, int]]:
    """Yield (end position, end offset) of every complete batch, from the headers alone.

    A header is valid if the next one continues from it, or if its checksum is right. Damage before another batch is skipped
    like a batch.
    """
    size_bytes = segment.size_bytes
    position, offset = 0, segment.base_offset
    if size_bytes < SPAN.size:
        return
    with (
        segment.path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        while size_bytes - position >= SPAN.size:
            base, length, last_delta = SPAN.unpack_from(content, position)
            step = position + PREFIX_BYTES + length, base + last_delta + 1
            sane = base == offset and length >= MIN_LENGTH and last_delta >= 0
            if not sane or not (
                _continues(content, step, size_bytes)
                or complete_batch(content, position, size_bytes) == step
            ):
                found = next_batch(content, position, offset, size_bytes, end_offset)
                if found is None:
                    return
                step = found
            position, offset = step
            yield step


def _continues(content: mmap.mmap, border: tuple[int, int], size_bytes: int) -> bool:
    """Whether there is a header with this offset at this position."""
    position, offset = border
    return size_bytes - position >= SPAN.size and SPAN.unpack_from(content, position)[0] == offset
