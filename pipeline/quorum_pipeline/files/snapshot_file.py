"""A snapshot file, verified completely before it is used.

The format is `quorum_node.records.snapshot_format`. Source: KIP-630, "Snapshot Format".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from quorum_node.records.batches import (
    PREFIX_BYTES,
    Batch,
    CorruptBatch,
    decode_records,
    split_batches,
)
from quorum_node.records.control import SnapshotHeader, decode_control
from quorum_node.records.snapshot_format import (
    MAX_BATCH_BYTES,
    CorruptSnapshot,
    SnapshotBounds,
    SnapshotReader,
)
from quorum_node.records.snapshot_id import SnapshotId, parse_snapshot_name
from quorum_node.schema.primitives import MalformedRecord
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogDirectory

_PIECE_BYTES = 1 << 20
_SIZE_AT = 8
"""Position of the number of bytes after the prefix of a batch."""


class DamagedSnapshot(PipelineError):
    """An incomplete or damaged snapshot. `position`: end of the valid batches at its start."""

    def __init__(self, path: Path, position: int, reason: str) -> None:
        super().__init__(f"{path}, byte {position}: {reason}")
        self.position = position
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A file with the name of a snapshot."""

    path: Path
    id: SnapshotId

    def batches(self) -> Iterator[tuple[int, Batch]]:
        """Yield (position, batch), control batches included. Raises PipelineError, possibly only at the end."""
        reader = SnapshotReader(self.id)
        yield from self._read(reader)
        self._finish(reader)

    def bounds(self) -> SnapshotBounds:
        """Read the whole file and return the content of its control records. Raises PipelineError."""
        reader = SnapshotReader(self.id)
        for _ in self._read(reader):
            pass
        return self._finish(reader)

    def latest_ms(self) -> int:
        """Return the time of the last record of the log that the state contains, from the first batch of the file, whose own time
        may be that of writing. Raises PipelineError if this batch is damaged, OSError.
        """
        with self.path.open("rb") as file:
            data = file.read(PREFIX_BYTES)
            rest_bytes = int.from_bytes(data[_SIZE_AT:PREFIX_BYTES], "big")
            data += file.read(min(rest_bytes, MAX_BATCH_BYTES))
        try:
            return latest_ms_in(data)
        except CorruptBatch as error:
            raise DamagedSnapshot(self.path, 0, error.reason) from None

    def _read(self, reader: SnapshotReader) -> Iterator[tuple[int, Batch]]:
        with self.path.open("rb") as file:
            while data := file.read(_PIECE_BYTES):
                position = reader.checked_bytes
                try:
                    batches = reader.feed(data)
                except CorruptSnapshot as error:
                    raise DamagedSnapshot(self.path, reader.checked_bytes, str(error)) from None
                for batch in batches:
                    yield position, batch
                    position += batch.header.size_bytes

    def _finish(self, reader: SnapshotReader) -> SnapshotBounds:
        try:
            return reader.finish()
        except CorruptSnapshot as error:
            raise DamagedSnapshot(self.path, reader.checked_bytes, str(error)) from None


def latest_ms_in(head: bytes) -> int:
    """Return what the header in the first bytes of a snapshot says, at least one batch: the time of the last record of the log that
    the state contains. Raises CorruptBatch.
    """
    try:
        for batch in split_batches(head)[0]:
            for record in decode_records(batch) if batch.header.is_control else ():
                found = decode_control(record)
                if isinstance(found, SnapshotHeader):
                    return found.last_contained_log_timestamp_ms
    except MalformedRecord as error:
        raise CorruptBatch(0, str(error)) from None
    raise CorruptBatch(0, "the snapshot has no header: incomplete")


def open_snapshot(path: Path) -> SnapshotFile:
    """Open a snapshot file. Raises PipelineError."""
    found = parse_snapshot_name(path.name)
    if found is None:
        raise PipelineError(
            f"{path} is not a snapshot: its name must be END_OFFSET-EPOCH.checkpoint (20 and 10 digits)"
        )
    if not path.is_file():
        raise PipelineError(f"{path} does not exist")
    return SnapshotFile(path, found)


def first_snapshot(log: LogDirectory) -> SnapshotFile | None:
    """Return the oldest snapshot that reaches the log's first record; None if the log begins at offset 0.

    Raises PipelineError if a required snapshot is missing.
    """
    found = snapshot_before(log)
    if found is None and log.start_offset > 0:
        raise PipelineError(
            f"the log in {log.path} begins at offset {log.start_offset}, and no snapshot covers the earlier records"
        )
    return found


def snapshot_before(log: LogDirectory) -> SnapshotFile | None:
    """Return the oldest snapshot that reaches the log's first record, if there is one. Before offset 0 it is the one that stock
    Kafka writes when it formats a directory: it may have the first voters.
    """
    covering = [each for each in log.snapshots if each.end_offset >= log.start_offset]
    if covering and (log.start_offset > 0 or covering[0].end_offset == 0):
        return SnapshotFile(log.path / covering[0].file_name, covering[0])
    return None
