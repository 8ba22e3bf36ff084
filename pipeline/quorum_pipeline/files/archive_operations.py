"""Lists the operations that wrote an archive, from its markers, like Delta's DESCRIBE HISTORY.

Owns the definition of an operation. No record is decoded and no file of records is opened: row numbers come from markers,
sizes and times from the file system. Directories without a marker, and merged ones, do not count.
Source: Delta Lake, "Retrieve Delta table history".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from quorum_pipeline.archive.damage import damaged
from quorum_pipeline.archive.layout import (
    DELTAS,
    MARKER,
    QUARANTINE,
    RECORDS,
    STATES,
    parse_state,
    parsed_marker,
)
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_reader import ArchiveReader, DirectoryGone
from quorum_pipeline.files.local_files import StoredFile

APPEND, MERGE, STATE = "append", "merge", "state"
_TRIES = 5
"""Each further try means that ranges were merged, or states deleted, since the last one."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A complete range, or a full state at `end_offset`, which has no start.

    `records`: those of a range, without quarantined ones; None for a state. `rows`: of deltas, or of the state. `merged`:
    number of directories that a merge replaced. `size_bytes`: records, deltas and quarantine, or the state. `written_ms`:
    when its marker was written.
    """

    kind: str
    start_offset: int | None
    end_offset: int
    records: int | None
    quarantined: int
    rows: int
    merged: int
    size_bytes: int
    written_ms: int


def operations(reader: ArchiveReader) -> list[Operation]:
    """Return the operations, the newest offsets first; a state follows the range with the same end. Raises PipelineError, OSError."""
    for _ in range(_TRIES - 1):
        listed = _listed(reader)
        try:
            return _operations(reader)
        except DirectoryGone:
            continue
        except PipelineError:
            if _listed(reader) == listed:
                raise
    return _operations(reader)


def _listed(reader: ArchiveReader) -> tuple[list[str], ...]:
    """What changes when ranges are merged, or states are deleted."""
    return reader.names(RECORDS), reader.names(STATES)


def _operations(reader: ArchiveReader) -> list[Operation]:
    found = [*_ranges(reader), *_states(reader)]
    return sorted(found, key=lambda each: (each.end_offset, each.kind == STATE), reverse=True)


def _ranges(reader: ArchiveReader) -> list[Operation]:
    found = []
    for each in reader.ranges():
        marker = reader.marker(each)
        directory = f"{RECORDS}/{each.directory}"
        kept = reader.stored(directory)
        beside = [
            file
            for table in (DELTAS, QUARANTINE)
            for file in reader.stored(f"{table}/{each.directory}")
        ]
        # The marker is deleted first: with it, all files were listed.
        if not _has_marker(reader, directory, kept):
            raise DirectoryGone(f"{reader.uri}/{directory}")
        found.append(
            Operation(
                MERGE if marker.merged else APPEND,
                each.start,
                each.end,
                marker.rows,
                marker.quarantined,
                marker.delta_rows,
                marker.merged,
                _size(kept) + _size(beside),
                marker.written_ms or _written_ms(kept),
            )
        )
    return found


def _states(reader: ArchiveReader) -> list[Operation]:
    found = []
    for name in reader.names(STATES):
        offset, directory = parse_state(name), f"{STATES}/{name}"
        if offset is None:
            continue
        kept = reader.stored(directory)
        text = reader.text(f"{directory}/{MARKER}")
        if text is None or not _has_marker(reader, directory, kept):
            continue  # it is not complete yet, or is being deleted
        try:
            rows = int(parsed_marker(text)["rows"])
        except (ValueError, KeyError, TypeError):
            raise PipelineError(damaged(f"{reader.uri}/{directory}/{MARKER}")) from None
        found.append(
            Operation(STATE, None, offset, None, 0, rows, 0, _size(kept), _written_ms(kept))
        )
    return found


def _has_marker(reader: ArchiveReader, directory: str, kept: Sequence[StoredFile]) -> bool:
    """Whether the directory had its marker when its files were listed, and still has it."""
    return any(each.name == MARKER for each in kept) and MARKER in reader.names(directory)


def _size(files: Sequence[StoredFile]) -> int:
    return sum(each.size_bytes for each in files if not each.name.startswith("."))


def _written_ms(files: Sequence[StoredFile]) -> int:
    return next(each.modified_ms for each in files if each.name == MARKER)
