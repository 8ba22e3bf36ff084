"""Records of an archive from its Parquet files, as columns in order of offsets.

A missing column is null. Files count together with the marker of their directory. Must not know Spark, nor which
directories count.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from quorum_pipeline.archive.damage import REPLACED, damaged
from quorum_pipeline.archive.layout import (
    MARKER,
    OffsetRange,
    parse_directory,
    parse_marker,
)
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.merged_parts import current
from quorum_pipeline.files.sealed_file import opened, parquet_files
from quorum_pipeline.state.log_columns import LogColumns

_MAX_OFFSET = (1 << 63) - 1
COLUMNS = ("offset", "epoch", "timestamp", "control", "record_key", "value")


class _File(NamedTuple):
    """A file. `least` and `most`: its first and last offset, inclusive."""

    least: int
    most: int
    path: Path
    rows: int

    @property
    def is_bounded(self) -> bool:
        return self.most < _MAX_OFFSET


def read_records(
    directory: Path, parallel_stages: int, start: int = 0, end: int = _MAX_OFFSET
) -> Iterator[LogColumns]:
    """Read all records in a directory in order. Files whose offsets overlap, those of one task, are read together.

    Files without any offset from `start` on and below `end` are skipped.

    `parallel_stages` files are read at a time, the next ones while the earlier are used. Raises PipelineError, OSError.
    """
    waiting: deque[Future[LogColumns]] = deque()
    with ThreadPoolExecutor(parallel_stages) as pool:
        found = _whole(directory, list(pool.map(_file, parquet_files(directory))))
        for group in _overlapping(_among(found, start, end)):
            # Submitted after the tasks that it waits for.
            waiting.append(pool.submit(_joined, [pool.submit(_read, path) for path in group]))
            if len(waiting) > 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def file_groups(directory: Path, start: int, end: int) -> Iterator[list[Path]]:
    """Yield the files of a directory with offsets from `start` on and below `end` in order, grouped where their offsets overlap.

    Raises PipelineError, OSError.
    """
    found = _whole(directory, [_file(path) for path in parquet_files(directory)])
    return _overlapping(_among(found, start, end))


class FileGroup(NamedTuple):
    """Files of a directory whose offsets overlap, with the records from `start` on and below `end`."""

    start: int
    end: int
    files: tuple[str, ...]


def groups_by_footer(
    directory: str, range: OffsetRange, rows: int, footers: Iterable[tuple[str, pq.FileMetaData]]
) -> list[FileGroup]:
    """Return the same groups for all files of a directory whose marker has `rows`, from the names and footers of its files.
    They are contiguous: a gap within one is noticed when it is read. Raises PipelineError.
    """
    files = [_bounds(Path(file), footer) for file, footer in footers]
    _check_complete(directory, files, rows, range)
    most = {each.path: each.most for each in files}
    groups, start = list[FileGroup](), range.start
    for paths in _overlapping(files):
        end = min(max(most[path] for path in paths) + 1, range.end)
        groups.append(FileGroup(start, end, tuple(map(str, paths))))
        start = end
    if groups:
        groups[-1] = groups[-1]._replace(end=range.end)
    return groups


def _among(files: Iterable[_File], start: int, end: int) -> list[_File]:
    return [each for each in files if each.most >= start and each.least < end]


def _whole(directory: Path, files: list[_File]) -> list[_File]:
    """Return the files, if they match the marker and the name of their directory. Raises PipelineError."""
    marker = current(directory) / MARKER
    if not marker.exists():
        return files
    try:
        expected = parse_marker(marker.read_text("utf-8")).rows
    except ValueError:
        raise PipelineError(damaged(marker)) from None
    _check_complete(directory, files, expected, parse_directory(directory.name))
    return files


def _check_complete(
    directory: Path | str, files: list[_File], expected: int, named: OffsetRange | None
) -> None:
    found = sum(each.rows for each in files)
    if found != expected:
        raise PipelineError(
            f"{directory} has {found} records, and its marker says {expected}: {REPLACED}"
        )
    for each in files if named is not None else ():
        assert named is not None
        if each.is_bounded and not (named.start <= each.least and each.most < named.end):
            raise PipelineError(
                f"{each.path} has offsets {each.least} to {each.most}, which do not belong to this directory:"
                " restore its files from a copy of the archive"
            )


def _joined(tables: list[Future[pa.Table]]) -> LogColumns:
    return log_columns(each.result() for each in tables)


def _overlapping(files: list[_File]) -> Iterator[list[Path]]:
    """Group files whose ranges of offsets overlap."""
    group: list[Path] = []
    end = 0
    for each in sorted(files):
        if group and each.least > end:
            yield group
            group = []
        end = max(end, each.most) if group else each.most
        group.append(each.path)
    if group:
        yield group


def _file(path: Path) -> _File:
    with opened(path) as file:
        return _bounds(path, file.metadata)


def _bounds(path: Path, footer: pq.FileMetaData) -> _File:
    """Range of offsets of a file; all possible offsets if it has no statistics."""
    rows, index = footer.num_rows, footer.schema.to_arrow_schema().get_field_index("offset")
    parts = [footer.row_group(number) for number in range(footer.num_row_groups)]
    statistics = [part.column(index).statistics for part in parts] if index >= 0 else []
    bounds = [(each.min, each.max) for each in statistics if each is not None]
    known = all(isinstance(bound, int) for each in bounds for bound in each)
    if not bounds or len(bounds) < len(statistics) or not known:
        return _File(0, _MAX_OFFSET, path, rows)
    return _File(min(least for least, _ in bounds), max(most for _, most in bounds), path, rows)


def _read(path: Path) -> pa.Table:
    # Spark writes times in a form that would else become nanoseconds, which end in the year 2262.
    with opened(path, coerce_int96_timestamp_unit="us") as file:
        names = [name for name in COLUMNS if name in file.schema_arrow.names]
        return _uniform(file.read(names, use_threads=False))


_KINDS = {"epoch": pa.int64(), "offset": pa.int64(), "timestamp": pa.int64(), "control": pa.bool_()}
_BYTES = pa.large_binary()


def _uniform(table: pa.Table) -> pa.Table:
    columns = []
    for name in COLUMNS:
        kind = _KINDS.get(name, _BYTES)
        if name not in table.column_names:
            columns.append(pa.nulls(len(table), kind))
            continue
        column = table.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
        elif pa.types.is_string(column.type):
            raise PipelineError(f"the column {name} holds {column.type}, not {kind}")
        columns.append(column.cast(kind))
    return pa.table(columns, names=COLUMNS)


def log_columns(tables: Iterable[pa.Table]) -> LogColumns:
    """Combine tables with COLUMNS."""
    table = pa.concat_tables([_uniform(pa.table({})), *map(_uniform, tables)])
    values = pc.fill_null(table.column("value").combine_chunks(), b"")
    _, borders, data = values.buffers()
    places = np.frombuffer(borders, np.int64)[values.offset : values.offset + len(values) + 1]
    offsets = _numbers(table, "offset")
    control = pc.fill_null(table.column("control"), False).to_numpy()
    order = np.argsort(offsets, kind="stable")
    keys = table.column("record_key")
    return LogColumns(
        np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8),
        {int(offsets[index]): keys[int(index)].as_py() for index in np.flatnonzero(control)},
        offsets[order],
        _numbers(table, "epoch")[order],
        _numbers(table, "timestamp")[order],
        control[order],
        places[:-1][order],
        places[1:][order],
    )


def _numbers(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    # A time that Spark's type can't hold is null in the archive.
    found: npt.NDArray[np.int64] = pc.fill_null(table.column(name), 0).to_numpy()
    return found
