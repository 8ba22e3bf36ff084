"""Reads, checks and replays the files of a partition.

Owns the order: the snapshot, then the log after it without a gap in the offsets. Used for a backup
that was just written, for one that is to be restored, and for a replica's directory. It only reads.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from quorum_node.backups.manifest import BackupError, FileEntry, Manifest
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.committed import CommittedImage
from quorum_node.records.batches import Batch, CorruptBatch, decode_records, split_batches
from quorum_node.records.control import VotersRecord, decode_control
from quorum_node.records.metadata_batch import decode_batch
from quorum_node.records.snapshot_format import CorruptSnapshot, SnapshotBounds, SnapshotReader
from quorum_node.records.snapshot_id import SnapshotId, parse_snapshot_name
from quorum_node.schema.primitives import MalformedRecord

_PIECE_BYTES = 1 << 20
_LOG_SUFFIX = ".log"


@dataclass(slots=True)
class Contents:
    """The state of all records below `end_offset`."""

    committed: CommittedImage = field(default_factory=CommittedImage)
    voters: VotersRecord | None = None
    kraft_version: int = 1

    @property
    def image(self) -> ClusterImage:
        """The image: brokers, topics, configs and so on."""
        return self.committed.image

    @property
    def end_offset(self) -> int:
        """End offset, exclusive."""
        return self.committed.end_offset

    @property
    def metadata_version(self) -> int:
        """Finalized metadata.version; 0: none is finalized."""
        return self.image.features.levels.get("metadata.version", 0)


def check_files(directory: Path, manifest: Manifest) -> None:
    """Check size and checksum of each file, read from the disk. Raises BackupError."""
    for each in manifest.files:
        found = entry_of(directory, each.name)
        if found != each:
            raise BackupError(
                f"{directory / each.name} is damaged: it has {found.size_bytes} bytes with SHA-256"
                f" {found.sha256[:12]}…, and {each.size_bytes} bytes with {each.sha256[:12]}… were written. Use"
                " another backup"
            )


def entry_of(directory: Path, name: str) -> FileEntry:
    """Size and checksum of a file on the disk. Bypasses the page cache. Raises BackupError."""
    digest, size = hashlib.sha256(), 0
    try:
        with (directory / name).open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while data := file.read(_PIECE_BYTES):
                digest.update(data)
                size += len(data)
    except OSError as error:
        raise BackupError(f"{directory / name} can't be read: {error.strerror}") from None
    return FileEntry(name, size, digest.hexdigest())


def read_contents(partition: Path) -> Contents:
    """Replay all files. Raises BackupError, which names the file, if it is damaged or records are missing."""
    found = Contents()
    snapshot = _newest_snapshot(partition)
    if snapshot is not None:
        _load(found, snapshot, partition / snapshot.file_name)
    for path in sorted(partition.glob(f"*{_LOG_SUFFIX}")):
        _replay_segment(found, path)
    if found.end_offset == 0:
        raise BackupError(f"{partition} contains no records: there is nothing to restore")
    return found


def _newest_snapshot(partition: Path) -> SnapshotId | None:
    names = (parse_snapshot_name(each.name) for each in partition.iterdir())
    return max((each for each in names if each is not None), default=None)


def _load(found: Contents, id: SnapshotId, path: Path) -> None:
    reader = SnapshotReader(id)
    try:
        with path.open("rb") as file:
            while data := file.read(_PIECE_BYTES):
                for batch in reader.feed(data):
                    _replay(found, batch)
        bounds: SnapshotBounds = reader.finish()
    except CorruptSnapshot as error:
        raise BackupError(f"{path}: {error}. Use another backup") from None
    found.voters, found.kraft_version = bounds.voters, bounds.kraft_version
    found.committed.reached(id.end_offset, id.epoch, bounds.last_contained_log_timestamp_ms)


def _replay_segment(found: Contents, path: Path) -> None:
    for batch in _batches(path):
        header = batch.header
        if header.end_offset <= found.end_offset:
            continue  # the snapshot holds these records already
        if header.base_offset > found.end_offset:
            raise BackupError(
                f"{path}: offset {header.base_offset} follows {found.end_offset}: records are missing."
                " Use another backup"
            )
        if header.leader_epoch < found.committed.epoch:
            raise BackupError(
                f"{path}: epoch {header.leader_epoch} at offset {header.base_offset} follows epoch"
                f" {found.committed.epoch}, which is higher. Use another backup"
            )
        if header.is_control:
            for record in decode_records(batch):
                control = decode_control(record)
                if isinstance(control, VotersRecord):
                    found.voters = control
        else:
            _replay(found, batch)
        found.committed.reached(header.end_offset, header.leader_epoch, header.max_timestamp_ms)


def _replay(found: Contents, batch: Batch) -> None:
    if not batch.header.is_control:
        found.committed.replay(decode_batch(batch))


def _batches(path: Path) -> Iterator[Batch]:
    rest = b""
    try:
        with path.open("rb") as file:
            while data := file.read(_PIECE_BYTES):
                batches, rest_bytes = split_batches(rest + data)
                yield from batches
                rest = (rest + data)[len(rest) + len(data) - rest_bytes :]
    except (CorruptBatch, MalformedRecord) as error:
        raise BackupError(f"{path} is damaged: {error}. Use another backup") from None
    if rest:
        raise BackupError(f"{path} ends in the middle of a batch. Use another backup")
