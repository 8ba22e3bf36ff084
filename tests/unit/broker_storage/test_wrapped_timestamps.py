"""Timestamps whose sum of base and delta exceeds 64 bits: it wraps around in every reader, as in Java.

A leader accepts such a batch if its times are in range then, as a stock one does. Without the wrapping, a compaction of it would end the
process, on every broker with a replica, again after each start.
"""

from pathlib import Path
from random import Random

import pytest

from quorum_node.broker.batch import Batch
from quorum_node.broker.produced_batch import BatchLimits, place, read_produced
from quorum_node.broker.wrapped import wrapped
from quorum_node.records.batches import framed
from quorum_node.schema.primitives import encode_varint
from quorum_node.server.broker.batch_validation import validated
from quorum_node.storage.broker.compaction import cleanable_part, compact
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.stored_records import stored_records
from quorum_node.storage.broker.timestamp_search import offset_for_timestamp, offset_of_newest
from quorum_simulation.files.file_system import SimulatedFiles
from support.finished_search import finished

NOW_MS = 1_700_000_000_000
LARGEST = (1 << 63) - 1
EARLIEST = NOW_MS - LARGEST
"""The earliest time that message.timestamp.before.max.ms allows by default."""
SETTINGS = LogSettings(compacts=True, deletes=False, file_delete_delay_ms=0)


def _record(index: int, timestamp_delta: int, key: bytes, value: bytes | None) -> bytes:
    content = b"\x01" if value is None else encode_varint(len(value)) + value
    key_bytes = encode_varint(len(key)) + key
    body = b"\0" + encode_varint(timestamp_delta) + encode_varint(index) + key_bytes + content
    return encode_varint(len(body) + 1) + body + b"\0"


def _log_with(base_ms: int, *records: tuple[int, bytes, bytes | None]) -> PartitionLog:
    """The log of a leader that has taken a batch. Each record: (timestamp delta, key, value)."""
    content = b"".join(_record(index, *each) for index, each in enumerate(records))
    fields = (0, len(records) - 1, base_ms, NOW_MS, -1, -1, -1, len(records))
    limits = BatchLimits(needs_keys=True)
    read = read_produced(framed(0, -1, fields, content), limits)
    assert isinstance(read, Batch)
    batch = validated(read, limits, NOW_MS)
    assert isinstance(batch, Batch), "a stock broker accepts it as well"
    files = SimulatedFiles(Random(1))
    files.make_directories(Path("/p"))
    log = PartitionLog.open(Path("/p"), SETTINGS, files=files, clock_ms=lambda: NOW_MS)
    log.append([batch.placed(0, 0)._replace(data=place(batch.data, 0, 0))])  # type: ignore[arg-type]
    log.roll()
    return log


def _times(log: PartitionLog) -> dict[bytes | None, int]:
    return {each.key: each.timestamp_ms for each in stored_records(log.read(0, 1 << 20))}


def _compact(log: PartitionLog, now_ms: int = NOW_MS) -> None:
    compact(log, cleanable_part(log, 0, log.end_offset, now_ms), now_ms)


def test_compaction_keeps_a_timestamp_that_wraps_around() -> None:
    to_now = NOW_MS - LARGEST
    log = _log_with(LARGEST, (LARGEST, b"a", b"1"), (to_now, b"b", b"1"), (to_now, b"b", b"2"))
    assert _times(log) == {b"a": -2, b"b": NOW_MS}
    _compact(log)
    assert _times(log) == {b"a": -2, b"b": NOW_MS}
    assert len(list(stored_records(log.read(0, 1 << 20)))) == 2


def test_compaction_of_a_tombstone_from_the_beginning_of_time() -> None:
    log = _log_with(EARLIEST, (0, b"a", None), (LARGEST, b"b", b"1"))
    before = _times(log)
    assert before == {b"a": EARLIEST, b"b": NOW_MS}
    _compact(log)
    assert _times(log) == before, "the delete horizon, which is later, became the base"


def test_a_search_by_time_finds_what_a_stock_broker_finds() -> None:
    log = _log_with(LARGEST, (LARGEST, b"a", b"1"), (NOW_MS - LARGEST, b"b", b"1"))
    for search in (offset_for_timestamp(log, NOW_MS), offset_of_newest(log)):
        found = finished(search)
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (1, NOW_MS)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (LARGEST, LARGEST),
        (LARGEST + 1, -LARGEST - 1),
        (2 * LARGEST, -2),
        (-LARGEST - 2, LARGEST),
    ],
)
def test_a_sum_keeps_its_lowest_64_bits(value: int, expected: int) -> None:
    assert wrapped(value) == expected
