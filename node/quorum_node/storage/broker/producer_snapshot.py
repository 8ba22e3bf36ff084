"""`%020d.snapshot`: the state of producers at an offset, so that the log does not have to be read
from its start.

Owns the format. A snapshot is written without a sync. An incomplete one has a wrong checksum and is
ignored.
Source: Kafka's `ProducerSnapshot.json`, version 1. It contains only the last batch of each
producer, as in Kafka.
"""

import os
import struct
from collections.abc import Iterable
from pathlib import Path
from struct import Struct

from crc32c import crc32c

from quorum_node.broker.batch import SEQUENCES
from quorum_node.broker.producers import SequencedBatch
from quorum_node.storage.atomic_file import read_file, sync_data, write_fully
from quorum_node.storage.broker.producer_table import NO_OFFSET, ProducerState
from quorum_node.storage.file_system import FileSystem

SUFFIX = ".snapshot"
_VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
"""Producer id and epoch, last sequence, last offset, delta, timestamp, coordinator epoch, open transaction's start."""


def snapshot_path(directory: Path, offset: int) -> Path:
    """Path of the snapshot at this offset."""
    return directory / f"{offset:020d}{SUFFIX}"


def write_snapshot(
    files: FileSystem, path: Path, states: Iterable[ProducerState], *, sync: bool = False
) -> None:
    """Write a snapshot. Raises OSError."""
    entries = [_packed(each) for each in states]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    fd = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_fully(fd, _HEAD.pack(_VERSION, crc32c(body)) + body, files)
        if sync:
            sync_data(fd, files)
    finally:
        files.close(fd)


def read_snapshot(files: FileSystem, path: Path) -> list[ProducerState] | None:
    """Entries of a snapshot; None if it is damaged, incomplete or missing. Raises StorageFailure if it can't be read."""
    content = read_file(path, files)
    if content is None:
        return None
    try:
        version, crc = _HEAD.unpack_from(content)
        body = memoryview(content)[_HEAD.size :]
        (count,) = _COUNT.unpack_from(body)
        if version != _VERSION or crc != crc32c(body):
            return None
        return [_unpacked(body, _COUNT.size + number * _ENTRY.size) for number in range(count)]
    except struct.error:
        return None


def _packed(state: ProducerState) -> bytes:
    sequence = last_offset = -1
    delta = 0
    if state.batches:
        last = state.batches[-1]
        sequence, last_offset = last.last_sequence, last.end_offset - 1
        delta = last_offset - last.base_offset
    return _ENTRY.pack(
        state.producer_id, state.producer_epoch, sequence, last_offset, delta,
        state.timestamp_ms, state.coordinator_epoch, state.transaction_start,
    )  # fmt: skip


def _unpacked(body: memoryview, at: int) -> ProducerState:
    (
        producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator_epoch, start
    ) = _ENTRY.unpack_from(body, at)  # fmt: skip
    batches = []
    if last_offset >= 0:
        first = (sequence - delta) % SEQUENCES
        batches = [SequencedBatch(first, sequence, last_offset - delta, last_offset + 1)]
    return ProducerState(
        producer_id, epoch, batches, timestamp, coordinator_epoch, max(start, NO_OFFSET)
    )
