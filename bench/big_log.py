"""Extends the metadata log in the directory of a stopped member to any size, for both systems.

Both systems use Kafka's file formats, so both get the same records: config changes of brokers with values of 256 bytes,
a hundred in a batch, over a number of keys, a hundred keys for each broker. The records continue the member's own log in its
last epoch. The benchmark measures the start that follows.
"""

import itertools
from collections.abc import Iterable
from pathlib import Path

from kafka_writes import BROKER

from quorum_node.records.batches import encode_values, split_batches
from quorum_node.records.metadata import ConfigRecord, encode_metadata

VALUE = "v" * 256
RECORD_BYTES = 285
"""Approximate size of a record in the log."""
_RECORDS_A_BATCH = 100
_SEGMENT_BYTES = 64 << 20


def end_of(folder: Path) -> tuple[int, int]:
    """End offset and last epoch of a partition's log."""
    last = max(folder.glob("*.log"))
    batches, _ = split_batches(last.read_bytes())
    header = batches[-1].header
    return header.end_offset, header.leader_epoch


def extend(folder: Path, size_bytes: int, keys: int) -> int:
    """Appends about `size_bytes` of config changes in new segments; returns the number of records."""
    names = [
        [
            encode_metadata(
                ConfigRecord(
                    resource_type=BROKER,
                    resource_name=str(start // 100),
                    name=f"bench-{key % keys}",
                    value=VALUE,
                )
            )
            for key in range(start, start + _RECORDS_A_BATCH)
        ]
        for start in range(0, keys, _RECORDS_A_BATCH)
    ]
    return append(folder, itertools.cycle(names), size_bytes)


def append(folder: Path, batches: Iterable[list[bytes]], most_bytes: int = 1 << 40) -> int:
    """Appends batches of record values in new segments, up to a size; returns the number of records."""
    offset, epoch = end_of(folder)
    first, base, written = offset, offset, 0
    segment = bytearray()
    for number, values in enumerate(batches):
        segment += encode_values(
            base_offset=offset,
            leader_epoch=epoch,
            timestamp_ms=1_700_000_000_000 + number,
            values=values,
        )
        offset += len(values)
        full = written + len(segment) >= most_bytes
        if full or len(segment) >= _SEGMENT_BYTES:
            (folder / f"{base:020d}.log").write_bytes(segment)
            written += len(segment)
            base, segment = offset, bytearray()
        if full:
            break
    if segment:
        (folder / f"{base:020d}.log").write_bytes(segment)
    return offset - first
