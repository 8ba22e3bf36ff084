"""A restored quorum begins with leader epochs that no partition had before.

Owns the records that follow those of a source: every partition again, with leader and partition epoch raised by a margin. In a backup
they are those of its time, and brokers have logs with later ones. A leader of an old epoch would not know these, and an epoch
that is given a second time has other records than the first time: replicas would take different records for equal ones (KIP-101
compares offset and epoch alone).

The records of the source stay as they are, because brokers know them.
"""

from dataclasses import replace

import structlog

from quorum_node.backups.contents import Contents
from quorum_node.backups.manifest import BackupError
from quorum_node.records.batches import encode_values
from quorum_node.records.metadata import PartitionRecord, encode_metadata
from quorum_node.records.metadata.metadata_version import record_version
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.sole_voter import EPOCH_DISTANCE

_MINUTE_S = 60
_COUNTED_FROM_S = 1_767_225_600
"""2026-01-01. Two restores of one backup at different times get different epochs: their records must not be confused."""
_MAX_EPOCH_OF_PARTITION = (1 << 31) - 1
"""Epochs are of type int32."""
_RECORDS_IN_BATCH = 1_000

_LOG = structlog.get_logger("quorum_node")


def epoch_margin(now_s: float) -> int:
    """How far a restore raises epochs: more than one recovery does, and more with each minute. `now_s`: seconds since 1970."""
    return EPOCH_DISTANCE + int(max(now_s - _COUNTED_FROM_S, 0)) // _MINUTE_S


def raised_partitions(contents: Contents, now_s: float) -> tuple[PartitionRecord, ...]:
    """All partitions, with raised epochs. None within a transaction, because records can't be added to it. Raises BackupError."""
    if contents.committed.in_transaction:
        _LOG.warning(
            "the leader epochs of partitions are not raised, as the restored log ends within a transaction. If brokers report that"
            " leader epochs have gone back, take a backup of the restored quorum, and restore that"
            " (docs/how-to/back-up-and-restore.md)"
        )
        return ()
    margin = epoch_margin(now_s)
    records = contents.image.topics.snapshot_records(contents.metadata_version)
    raised = tuple(_raised(each, margin) for each in records if isinstance(each, PartitionRecord))
    if raised:
        _LOG.info(
            f"the leader epochs of {len(raised)} partitions are raised by {margin}: brokers may have logs with later ones than the"
            " restored records"
        )
    return raised


def append_partitions(
    log: SegmentedLog,
    contents: Contents,
    partitions: tuple[PartitionRecord, ...],
    epoch: int,
    now_s: float,
) -> None:
    """Append the partitions to the log with these contents, in `epoch`; durable after its next flush. Raises StorageFailure, DiskFull."""
    version = record_version(PartitionRecord, contents.metadata_version)
    timestamp_ms = max(int(now_s * 1000), contents.committed.timestamp_ms)
    for start in range(0, len(partitions), _RECORDS_IN_BATCH):
        some = partitions[start : start + _RECORDS_IN_BATCH]
        base = log.end_offset
        data = encode_values(
            base_offset=base,
            leader_epoch=epoch,
            timestamp_ms=timestamp_ms,
            values=[encode_metadata(each, version) for each in some],
        )
        log.append(data, base, base + len(some), epoch)


def _raised(record: PartitionRecord, margin: int) -> PartitionRecord:
    leader_epoch = record.leader_epoch + margin
    partition_epoch = record.partition_epoch + margin
    if max(leader_epoch, partition_epoch) > _MAX_EPOCH_OF_PARTITION:
        raise BackupError(
            f"the epochs of partition {record.partition_id} of topic {record.topic_id} can't be raised by {margin}: its leader"
            f" epoch is {record.leader_epoch}, its partition epoch {record.partition_epoch}"
        )
    return replace(record, leader_epoch=leader_epoch, partition_epoch=partition_epoch)
