"""Replay of what is committed: records that are not where they belong are damage of the log."""

import asyncio
import struct

import pytest

from quorum_node.records.batches import CorruptBatch, encode_batch
from quorum_node.records.metadata import ConfigRecord, encode_metadata
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.partition.applier import Applier
from support.applier_port import RecordingPort


def batch(base_offset: int) -> bytes:
    record = ConfigRecord(resource_type=2, resource_name="t", name=f"n{base_offset}", value="1")
    value = encode_metadata(record, 0)
    return encode_batch(
        base_offset=base_offset, leader_epoch=1, timestamp_ms=0, records=[(None, value)]
    )


class Log:
    """Hands out what it was given, from the batch of an offset on."""

    def __init__(self, batches: list[bytes]) -> None:
        self._batches = batches

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        return b"".join(self._batches[start_offset:limit_offset])


class LogOfLimits(Log):
    """Like a segment's file: the end in a batch's header decides whether it comes before the limit."""

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        found = b""
        for each in self._batches[start_offset:]:
            base_offset, last_offset_delta = struct.unpack_from(">q15xi", each)
            if base_offset + last_offset_delta >= limit_offset:
                break
            found += each
        return found


@pytest.mark.parametrize("log_of", [Log, LogOfLimits])
@pytest.mark.parametrize("damaged", [0, 1, 2])
@pytest.mark.parametrize("bit", [0, 1, 2, 33, 62])
@pytest.mark.requirement("K595-02")
def test_flipped_bit_of_a_base_offset_stops_the_replay(
    damaged: int, bit: int, log_of: type[Log]
) -> None:
    batches = [batch(offset) for offset in range(3)]
    broken = bytearray(batches[damaged])
    broken[7 - bit // 8] ^= 1 << bit % 8
    failures: list[Exception] = []

    async def body() -> Applier:
        log = log_of([*batches[:damaged], bytes(broken), *batches[damaged + 1 :]])
        port = RecordingPort()
        applier = Applier(log, port, Metrics().partition(0))
        applier.advance(3)
        await port.noticed.wait()
        failures.extend(port.failures)
        return applier

    applier = asyncio.run(asyncio.wait_for(body(), 10))
    assert isinstance(failures[0], CorruptBatch)
    assert applier.committed.end_offset == damaged
