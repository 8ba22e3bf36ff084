"""Reads, checks and replays the files of a partition.

Owns the order: the snapshot, then the log after it without a gap in the offsets. Used for a backup
that was just written, for one that is to be restored, and for a replica's directory. It only reads.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from quorum_node.backups.files import PARTITION, BackupFiles
from quorum_node.backups.manifest import BackupError, FileEntry, Manifest
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.committed import CommittedImage
from quorum_node.records.batches import Batch, CorruptBatch, decode_records, split_batches
from quorum_node.records.control import VotersRecord, decode_control
from quorum_node.records.metadata_batch import decode_batch
from quorum_node.records.snapshot_format import CorruptSnapshot, SnapshotBounds, SnapshotReader
from quorum_node.records.snapshot_id import SnapshotId, parse_snapshot_name
from quorum_node.schema.primitives import MalformedRecord

_LOG_SUFFIX = ".log"
_UNUSABLE = (CorruptBatch, MalformedRecord, ValueError)
"""Errors of reading and replaying records. ValueError: of a record that does not fit to those before it."""


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


def check_files(files: BackupFiles, manifest: Manifest) -> None:
    """Read each file of the manifest, and check its size and checksum. Raises BackupError."""
    for each in manifest.files:
        for _ in checked_pieces(files, each):
            pass


def checked_pieces(files: BackupFiles, wanted: FileEntry) -> Iterator[bytes]:
    """The content of a file. Raises BackupError after the last piece if size or checksum are wrong."""
    digest, size = hashlib.sha256(), 0
    for data in files.pieces(wanted.name):
        digest.update(data)
        size += len(data)
        yield data
    found = FileEntry(wanted.name, size, digest.hexdigest())
    if found != wanted:
        raise BackupError(
            f"{files.place_of(wanted.name)} is damaged: it has {found.size_bytes} bytes with SHA-256"
            f" {found.sha256[:12]}…, and {wanted.size_bytes} bytes with {wanted.sha256[:12]}… were written. Use"
            " another backup"
        )


def entry_of(files: BackupFiles, name: str) -> FileEntry:
    """Size and checksum of a file, as it is read back. Raises BackupError."""
    digest, size = hashlib.sha256(), 0
    for data in files.pieces(name):
        digest.update(data)
        size += len(data)
    return FileEntry(name, size, digest.hexdigest())


def read_contents(files: BackupFiles) -> Contents:
    """Replay all files. Raises BackupError, which names the file, if it is damaged or records are missing."""
    found = Contents()
    names = list(files.sizes())
    snapshot = _newest_snapshot(names)
    if snapshot is not None:
        _load(found, snapshot, files, f"{PARTITION}/{snapshot.file_name}")
    for name in names:
        if name.endswith(_LOG_SUFFIX):
            _replay_segment(found, files, name)
    if found.end_offset == 0:
        raise BackupError(
            f"{files.place_of(PARTITION)} contains no records, so there is nothing to restore: use another backup"
        )
    return found


def _newest_snapshot(names: list[str]) -> SnapshotId | None:
    ids = (parse_snapshot_name(each.removeprefix(f"{PARTITION}/")) for each in names)
    return max((each for each in ids if each is not None), default=None)


def _load(found: Contents, id: SnapshotId, files: BackupFiles, name: str) -> None:
    reader = SnapshotReader(id)
    try:
        for data in files.pieces(name):
            for batch in reader.feed(data):
                _replay(found, batch)
        bounds: SnapshotBounds = reader.finish()
    except CorruptSnapshot as error:
        raise BackupError(f"{files.place_of(name)}: {error}. Use another backup") from None
    except _UNUSABLE as error:
        raise _damaged(files.place_of(name), error) from None
    found.voters, found.kraft_version = bounds.voters, bounds.kraft_version
    found.committed.reached(id.end_offset, id.epoch, bounds.last_contained_log_timestamp_ms)


def _replay_segment(found: Contents, files: BackupFiles, name: str) -> None:
    path = files.place_of(name)
    try:
        _replay_batches(found, files, name, path)
    except _UNUSABLE as error:
        raise _damaged(path, error) from None


def _damaged(path: str, error: Exception) -> BackupError:
    return BackupError(f"{path} is damaged: {error}. Use another backup")


def _replay_batches(found: Contents, files: BackupFiles, name: str, path: str) -> None:
    for batch in _batches(files.pieces(name), path):
        header = batch.header
        if header.end_offset <= found.end_offset:
            continue  # the snapshot contains these records already
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


def _batches(pieces: Iterator[bytes], path: str) -> Iterator[Batch]:
    rest = b""
    for data in pieces:
        batches, rest_bytes = split_batches(rest + data)
        yield from batches
        rest = (rest + data)[len(rest) + len(data) - rest_bytes :]
    if rest:
        raise BackupError(f"{path} ends in the middle of a batch. Use another backup")
