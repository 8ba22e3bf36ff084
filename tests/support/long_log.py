"""A long metadata log, written in little time: the same batches of changes again and again, over partitions that stay as many.

A batch's checksum does not cover its base offset, so only that is different in each copy.
"""

from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

from quorum_node.records import metadata as md
from quorum_node.records.batches import encode_values
from quorum_node.records.metadata import encode_metadata
from support.written_log import TOPIC_ID, broker, partition

_SEGMENT_BYTES = 16 << 20
_PARTITIONS = 20_000
_AT_ONCE = 1_000
_DIFFERENT = 40
"""Batches of changes that are repeated: each partition changes twice in them."""


def write_long_log(directory: Path, records: int, *, batch_records: int = _AT_ONCE) -> int:
    """Write about this number of records to a new directory, in segments; return the end offset."""
    directory.mkdir(parents=True)
    end = size = 0
    file = (directory / f"{end:020d}.log").open("wb")
    changes = cycle([_batch(each) for each in _changes(batch_records)])
    try:
        for count, data in (*map(_batch, _beginning()), *islice(changes, records // batch_records)):
            if size >= _SEGMENT_BYTES:
                file.close()
                file, size = (directory / f"{end:020d}.log").open("wb"), 0
            file.write(end.to_bytes(8, "big") + data[8:])
            end, size = end + count, size + len(data)
    finally:
        file.close()
    return end


def _batch(records: list[md.MetadataMessage]) -> tuple[int, bytes]:
    values = [
        encode_metadata(each, md.record_version(type(each), md.LATEST_LEVEL)) for each in records
    ]
    data = encode_values(
        base_offset=0, leader_epoch=1, timestamp_ms=1_700_000_000_000, values=values
    )
    return len(values), data


def _beginning() -> Iterator[list[md.MetadataMessage]]:
    yield [broker(number, f"r{number}") for number in (1, 2, 3)]
    yield [md.TopicRecord(name="t", topic_id=TOPIC_ID)]
    for start in range(0, _PARTITIONS, _AT_ONCE):
        yield [partition(number, (1, 2, 3)) for number in range(start, start + _AT_ONCE)]


def _changes(batch_records: int) -> Iterator[list[md.MetadataMessage]]:
    for number in range(_DIFFERENT):
        isr = (1, 2) if number % 3 else (1, 2, 3)
        yield [
            md.PartitionChangeRecord(
                partition_id=(number * batch_records + each) % _PARTITIONS,
                topic_id=TOPIC_ID,
                isr=isr,
                leader=1 + number % 2,
            )
            for each in range(batch_records)
        ]
