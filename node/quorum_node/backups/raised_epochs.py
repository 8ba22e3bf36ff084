"""A restored quorum begins with leader epochs that no partition had before.

Owns one more segment after the records of a source: every partition again, with leader and partition epoch raised by a margin. In a backup
they are those of its time, and brokers have logs with later ones. A leader of an old epoch would not know these, and an epoch
that is given a second time has other records than the first time: replicas would take different records for equal ones (KIP-101
compares offset and epoch alone).

The records of the source stay as they are, because brokers know them. The new ones have an epoch beyond those of the old quorum, which
may have written other records at the same offsets.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import structlog

from quorum_node.backups.contents import Contents, checked_pieces, read_contents
from quorum_node.backups.files import PARTITION, BackupFiles
from quorum_node.backups.manifest import BackupError, FileEntry
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.raft.epoch_bound import MAX_EPOCH
from quorum_node.records.batches import encode_values
from quorum_node.records.metadata import MetadataMessage, PartitionRecord, encode_metadata
from quorum_node.records.metadata.metadata_version import record_version
from quorum_node.storage.errors import OutOfResources, StorageFailure
from quorum_node.storage.leader_epochs import FILE_NAME as CHECKPOINT
from quorum_node.storage.log_end import KnownSynced
from quorum_node.storage.sole_voter import EPOCH_DISTANCE
from quorum_node.storage.synced_end import read_synced_end

CHECKPOINT_NAME = f"{PARTITION}/{CHECKPOINT}"
_MINUTE_S = 60
_COUNTED_FROM_S = 1_767_225_600
"""2026-01-01. Two restores of one backup at different times get different epochs: their records must not be confused."""
_MOST = (1 << 31) - 1
"""Epochs are of type int32."""
_RECORDS_IN_BATCH = 1_000

_LOG = structlog.get_logger("quorum_node")


def epoch_margin(now_s: float) -> int:
    """How far a restore raises epochs: more than one recovery does, and more with each minute. `now_s`: seconds since 1970."""
    return EPOCH_DISTANCE + int(max(now_s - _COUNTED_FROM_S, 0)) // _MINUTE_S


class RaisedEpochs:
    """The files of a source with the additional segment. `added_records`: their number, 0 if there are no partitions."""

    def __init__(
        self,
        files: BackupFiles,
        contents: Contents,
        entries: Mapping[str, FileEntry],
        now_s: float | None = None,
    ) -> None:
        """`contents`: of the files, complete and without an open transaction. `entries`: expected checksums. `now_s`: seconds since 1970.

        Raises BackupError.
        """
        self._files = files
        self._base = contents.end_offset
        self.added_records = contents.image.topics.partition_count
        now = time.time() if now_s is None else now_s
        self.margin = epoch_margin(now)
        # No node opens a log with a higher epoch. Of such a backup a new cluster is made, in which epochs start again.
        bounded = min(contents.committed.epoch + self.margin, MAX_EPOCH - 1)
        self._epoch = max(contents.committed.epoch, bounded)
        self._timestamp_ms = max(int(now * 1000), contents.committed.timestamp_ms)
        self._segment = f"{PARTITION}/{self._base:020d}.log"
        self._checkpoint = self._with_epoch(_content(files, CHECKPOINT_NAME, entries))
        # Much smaller than the image, which is not kept: the restored log is replayed to another one.
        self._batches = tuple(self._batches_of(contents.image))

    @property
    def place(self) -> str:
        """See `BackupFiles`."""
        return self._files.place

    def place_of(self, name: str) -> str:
        """See `BackupFiles`."""
        return self._files.place_of(name)

    def sizes(self) -> dict[str, int]:
        """See `BackupFiles`."""
        own = {self._segment: sum(map(len, self._batches)), CHECKPOINT_NAME: len(self._checkpoint)}
        return dict(sorted({**self._files.sizes(), **own}.items()))

    def pieces(self, name: str) -> Iterator[bytes]:
        """See `BackupFiles`."""
        if name == self._segment:
            yield from self._batches
        elif name == CHECKPOINT_NAME:
            yield self._checkpoint
        else:
            yield from self._files.pieces(name)

    def _batches_of(self, image: ClusterImage) -> Iterator[bytes]:
        base, values = self._base, list[bytes]()
        for value in self._values(image):
            values.append(value)
            if len(values) == _RECORDS_IN_BATCH:
                yield self._batch(base, values)
                base, values = base + len(values), []
        if values:
            yield self._batch(base, values)

    def _batch(self, base: int, values: list[bytes]) -> bytes:
        return encode_values(
            base_offset=base,
            leader_epoch=self._epoch,
            timestamp_ms=self._timestamp_ms,
            values=values,
        )

    def _values(self, image: ClusterImage) -> Iterator[bytes]:
        level = image.features.metadata_version
        version = record_version(PartitionRecord, level)
        for record in image.topics.snapshot_records(level):
            if isinstance(record, PartitionRecord):
                yield encode_metadata(self._raised(record), version)

    def _raised(self, record: PartitionRecord) -> MetadataMessage:
        leader_epoch = record.leader_epoch + self.margin
        partition_epoch = record.partition_epoch + self.margin
        if max(leader_epoch, partition_epoch) > _MOST:
            raise BackupError(
                f"{self.place}: the epochs of partition {record.partition_id} of topic {record.topic_id} can't be raised"
                f" by {self.margin}: its leader epoch is {record.leader_epoch}, its partition epoch {record.partition_epoch}"
            )
        return replace(record, leader_epoch=leader_epoch, partition_epoch=partition_epoch)

    def _with_epoch(self, content: bytes) -> bytes:
        """leader-epoch-checkpoint with the epoch of the new segment. An epoch without records before it is left out."""
        try:
            starts = [tuple(map(int, line.split())) for line in content.decode().splitlines()[2:]]
            kept = [(epoch, offset) for epoch, offset in starts if offset < self._base]
        except ValueError:
            raise BackupError(f"{self.place_of(CHECKPOINT_NAME)} is damaged") from None
        if not kept or kept[-1][0] != self._epoch:
            kept.append((self._epoch, self._base))
        lines = ["0", str(len(kept)), *(f"{epoch} {offset}" for epoch, offset in kept)]
        return ("\n".join(lines) + "\n").encode()


def raised_epochs(
    files: BackupFiles, entries: Mapping[str, FileEntry], replica: Path | None
) -> RaisedEpochs | None:
    """The files with raised epochs; None if nothing can be added. `replica`: the directory if it is a replica's, and no backup.

    Only a replica's log may end within a batch, or in a transaction. What was never synced of it is truncated later. Raises BackupError.
    """
    try:
        contents = read_contents(files)
    except BackupError:
        if replica is None:
            raise
        _warn(files, "the log does not end with a whole batch")
        return None
    if contents.committed.in_transaction:
        _warn(files, "the log ends within a transaction")
        return None
    if replica is not None and not _is_whole(replica / PARTITION, contents):
        _warn(files, "the log differs from what was synced")
        return None
    if not contents.image.topics.partition_count:
        return None
    raised = RaisedEpochs(files, contents, entries)
    _LOG.info(
        f"the leader epochs of {raised.added_records} partitions are raised by {raised.margin}: brokers may have logs with later"
        " ones than the restored records"
    )
    return raised


def _warn(files: BackupFiles, why: str) -> None:
    _LOG.warning(
        f"the leader epochs of partitions are not raised, as in {files.place} {why}. If brokers report"
        " that leader epochs have gone back, take a backup of the restored quorum, and restore that"
        " (docs/how-to/back-up-and-restore.md)"
    )


def _is_whole(partition: Path, contents: Contents) -> bool:
    """Whether the log has everything that was synced, and no sync failed. Otherwise opening it decides what is left of it, or refuses it."""
    try:
        recorded = read_synced_end(partition)
    except OutOfResources:
        raise
    except StorageFailure:
        return False
    if recorded is None:
        return True
    known = KnownSynced(0, recorded.end_offset, recorded.epoch)
    return not recorded.failed and not known.lacks(contents.end_offset, contents.committed.epoch)


def _content(files: BackupFiles, name: str, entries: Mapping[str, FileEntry]) -> bytes:
    """The content of a small file; empty if it does not exist."""
    if name not in files.sizes():
        return b""
    wanted = entries.get(name)
    return b"".join(files.pieces(name) if wanted is None else checked_pieces(files, wanted))
