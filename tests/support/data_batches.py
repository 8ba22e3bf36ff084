"""Batches as in the logs of a broker: with producers, transactions, timestamps, gaps."""

from collections.abc import Sequence
from struct import Struct

from crc32c import crc32c

from quorum_node.broker.batch import Batch
from quorum_node.records.batches import CRC_COVERS_FROM, HEADER_BYTES, Record, encode_batch

_PRODUCER = Struct(">qhi")
_ATTRIBUTES = Struct(">h")
_CRC = Struct(">I")
_TIMESTAMP = Struct(">q")
CONTROL, TRANSACTIONAL = 0x20, 0x10


def data_batch(
    offset: int,
    count: int = 1,
    *,
    epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = 0,
    sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    timestamp_ms: int = 1_000,
    records: Sequence[Record] | None = None,
    value_bytes: int = 20,
    first_timestamp_ms: int | None = None,
) -> Batch:
    """A placed batch, as the core hands it to storage. `first_timestamp_ms`: of the first record, if it is the newest one."""
    given = records or [
        Record(None, f"{offset + n}".encode().ljust(value_bytes, b".")) for n in range(count)
    ]
    data = bytearray(
        encode_batch(
            base_offset=offset, leader_epoch=epoch, timestamp_ms=timestamp_ms, records=given
        )
    )
    attributes = TRANSACTIONAL * transactional | CONTROL * control
    _ATTRIBUTES.pack_into(data, 21, attributes)
    if producer_id >= 0:
        _PRODUCER.pack_into(data, 43, producer_id, producer_epoch, sequence)
    if first_timestamp_ms is not None:
        _delay_first(data, first_timestamp_ms - timestamp_ms)
        timestamp_ms = first_timestamp_ms
    _CRC.pack_into(data, 17, crc32c(memoryview(data)[CRC_COVERS_FROM:]))
    return Batch(
        offset,
        offset + len(given),
        epoch,
        len(data),
        bytes(data),
        producer_id,
        producer_epoch if producer_id >= 0 else -1,
        sequence,
        timestamp_ms,
    )


def end_of_transaction(
    offset: int, producer_id: int, *, abort: bool, epoch: int = 0, producer_epoch: int = 0
) -> Batch:
    """The marker that a transaction coordinator has a leader write."""
    key = b"\0\0" + (b"\0\0" if abort else b"\0\1")
    return data_batch(
        offset,
        epoch=epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        records=[Record(key, b"\0\0\0\0\0\7")],
    )


def _delay_first(data: bytearray, delta_ms: int) -> None:
    """Set the timestamp delta of the first record, which has one byte, and the maximum timestamp of the batch."""
    assert 0 < delta_ms < 64, "it has to fit into one byte"
    begin = HEADER_BYTES
    while data[begin] & 0x80:  # the length of the record
        begin += 1
    data[begin + 2] = delta_ms << 1
    (base_ms,) = _TIMESTAMP.unpack_from(data, 27)
    _TIMESTAMP.pack_into(data, 35, base_ms + delta_ms)
