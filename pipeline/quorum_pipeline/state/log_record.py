"""A single record of a log, and the messages about missing records. PURE."""

from typing import NamedTuple

from quorum_node.records.batches import Batch, decode_records


class LogRecord(NamedTuple):
    """A record with the properties that its batch defines."""

    offset: int
    epoch: int
    timestamp_ms: int
    control: bool
    key: bytes | None
    value: bytes


def records_of_batch(batch: Batch, start: int, end: int) -> list[LogRecord]:
    """Return the records of a batch from offset `start` on and below `end`. Raises CorruptBatch."""
    header = batch.header
    return [
        LogRecord(
            record.offset,
            header.leader_epoch,
            record.timestamp_ms,
            header.is_control,
            record.key,
            record.value or b"",
        )
        for record in decode_records(batch)
        if start <= record.offset < end
    ]


def misplaced(offset: int, expected: int) -> str:
    """Return the message about an offset other than the expected one."""
    return f"offset {offset} where {expected} is expected: records are missing or duplicated"


def missing(offset: int, end_offset: int) -> str:
    """Return the message about records that end before `end_offset`."""
    return f"the records from offset {offset} to {end_offset} are missing"
