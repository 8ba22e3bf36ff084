"""The segments of one replica's log, and how they are cut into spans that can be read side by side.

Owns finding files and the borders between batches. Reads nothing but headers; `log_span.py` reads the batches.
Source: Kafka's log layout (`%020d.log`, named after the first offset); KIP-595, "Log".
"""

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from quorum_node.records.snapshot_id import SnapshotId, parse_snapshot_name
from quorum_pipeline.errors import PipelineError

PARTITION_DIRECTORY = "__cluster_metadata-0"
SUFFIX = ".log"
_SPAN = struct.Struct(">qi11xi")
"""Base offset, length, last offset delta."""
_LENGTH_PREFIX_BYTES = 12
_MIN_LENGTH = 49


@dataclass(frozen=True, slots=True)
class LogSpan:
    """Bytes of one segment that begin with a batch. `end_offset` None: as far as whole batches go.

    `is_last`: nothing follows it in the log, so a batch that is not whole is one that is being written.
    """

    path: str
    position: int
    end_position: int
    base_offset: int
    end_offset: int | None
    is_last: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """A file and the offset in its name."""

    path: Path
    base_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """What lies in the directory of the metadata partition; `segments` and `snapshots` are in order."""

    path: Path
    segments: tuple[Segment, ...]
    snapshots: tuple[SnapshotId, ...]

    @property
    def start_offset(self) -> int:
        """The first offset that the log has; that of the newest snapshot if there is no segment."""
        if self.segments:
            return self.segments[0].base_offset
        return self.snapshots[-1].end_offset

    def end_offset(self) -> int:
        """The offset behind the last whole batch, by the headers."""
        if not self.segments:
            return self.start_offset
        last = self.segments[-1]
        ends = (end for _, end in _borders(last.path, last.size_bytes))
        return max(ends, default=last.base_offset)

    def spans(self, start_offset: int, target_bytes: int) -> Iterator[LogSpan]:
        """The log from the batch with `start_offset` on, in pieces of about so many bytes."""
        for index, segment in enumerate(self.segments):
            following = self.segments[index + 1] if index + 1 < len(self.segments) else None
            if following is not None and following.base_offset <= start_offset:
                continue
            yield from _cut(
                segment, start_offset, target_bytes, following.base_offset if following else None
            )


def open_log(path: Path) -> LogDirectory:
    """The log in this directory, or in its `__cluster_metadata-0`. Raises PipelineError."""
    if not path.exists():
        raise PipelineError(f"{path} does not exist")
    if not path.is_dir():
        raise PipelineError(f"{path} is no directory; give the directory that holds the segments")
    inner = path / PARTITION_DIRECTORY
    directory = inner if inner.is_dir() else path
    segments, snapshots = [], []
    for found in sorted(directory.iterdir()):
        stem = found.name.removesuffix(SUFFIX)
        if stem != found.name and len(stem) == 20 and stem.isdigit():
            segments.append(Segment(found, int(stem), found.stat().st_size))
        elif (snapshot := parse_snapshot_name(found.name)) is not None:
            snapshots.append(snapshot)
    if not segments and not snapshots:
        raise PipelineError(
            f"{directory} is not a metadata log: it holds neither segments (20 digits and {SUFFIX})"
            " nor snapshots (.checkpoint)"
        )
    return LogDirectory(directory, tuple(segments), tuple(sorted(snapshots)))


def _cut(
    segment: Segment, start_offset: int, target_bytes: int, end_offset: int | None
) -> Iterator[LogSpan]:
    """A header that makes no sense ends the walk: the last span has the rest, and reading it says what is wrong."""
    position, base = 0, segment.base_offset
    for at, end in _borders(segment.path, segment.size_bytes):
        if end <= start_offset:
            position, base = at, end
        elif at - position >= target_bytes:
            yield LogSpan(str(segment.path), position, at, base, end, is_last=False)
            position, base = at, end
    if position < segment.size_bytes:
        path, is_last = str(segment.path), end_offset is None
        yield LogSpan(path, position, segment.size_bytes, base, end_offset, is_last)


def _borders(path: Path, size_bytes: int) -> Iterator[tuple[int, int]]:
    """(position behind a batch, offset behind it) of every whole batch, by the headers alone."""
    position = 0
    if size_bytes < _SPAN.size:
        return
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        while size_bytes - position >= _SPAN.size:
            base, length, last_delta = _SPAN.unpack_from(content, position)
            position += _LENGTH_PREFIX_BYTES + length
            if length < _MIN_LENGTH or last_delta < 0 or position > size_bytes:
                return
            yield position, base + last_delta + 1
