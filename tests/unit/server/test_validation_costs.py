"""Batches that are cheap for a producer and could be expensive for a broker: their cost is bounded, or they are validated in the thread."""

import asyncio
import time
from dataclasses import replace
from functools import partial

from quorum_node.broker.batch import Batch
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.produced_batch import BatchLimits, read_produced
from quorum_node.broker.produced_records import Refusal
from quorum_node.schema.primitives import encode_varint
from quorum_node.server.broker.batch_validation import (
    MOST_HEADERS_ON_LOOP,
    MOST_RECORDS_ON_LOOP,
    MOST_SECONDS_A_TURN,
    BatchValidation,
    validated,
)
from quorum_node.storage.broker.codecs import GZIP
from support.produced_batches import content_of, produced

NOW_MS = 1_764_000_000_000
LATE_MS = 7_200_000
LIMITS = BatchLimits()
COMPACTED = replace(LIMITS, needs_keys=True)


def batch(data: bytes, limits: BatchLimits = LIMITS) -> Batch:
    found = read_produced(data, limits)
    assert isinstance(found, Batch)
    return found


def record_with_headers(count: int) -> bytes:
    """One record; its headers have empty keys and null values."""
    nothing = encode_varint(-1)
    body = b"\0\0\0" + nothing + nothing + encode_varint(count) + (b"\0" + nothing) * count
    return encode_varint(len(body)) + body


def test_late_records_without_keys_take_linear_time() -> None:
    def seconds(count: int) -> float:
        data = produced(*[(LATE_MS, None, b"")] * count, base_ms=NOW_MS, attributes=GZIP)
        read = batch(data, COMPACTED)
        begun = time.thread_time()
        found = validated(read, COMPACTED, NOW_MS)
        assert isinstance(found, Refusal)
        assert found.error is BrokerError.INVALID_RECORD
        return time.thread_time() - begun

    seconds(100)
    assert seconds(20_000) < 100 * min(seconds(1_000) for _ in range(3))


async def test_record_with_many_headers_is_validated_in_the_thread() -> None:
    validation = BatchValidation(lambda: NOW_MS)
    found: asyncio.Future[Batch | Refusal] = asyncio.get_running_loop().create_future()
    few, many = MOST_HEADERS_ON_LOOP, MOST_HEADERS_ON_LOOP + 1
    for count, where in ((few, "loop"), (many, "thread")):
        data = produced(content=record_with_headers(count), count=1, base_ms=NOW_MS)
        found = asyncio.get_running_loop().create_future()
        validation.validate("p", batch(data), LIMITS, found.set_result)
        assert found.done() is (where == "loop")
        assert isinstance(await asyncio.wait_for(found, 30), Batch)
    validation.close()
    await asyncio.get_running_loop().run_in_executor(None, validation.join)


def test_compressed_batch_of_equal_records_is_rejected_at_the_second_one() -> None:
    """The last one is malformed, which is not noticed any more."""
    one = content_of((0, None, b""))
    content = one * MOST_RECORDS_ON_LOOP + b"\1"
    data = produced(
        content=content, count=MOST_RECORDS_ON_LOOP + 1, base_ms=NOW_MS, attributes=GZIP
    )
    found = validated(batch(data), LIMITS, NOW_MS)
    assert isinstance(found, Refusal)
    assert found.error is BrokerError.UNKNOWN_SERVER_ERROR
    assert "offset deltas" in found.text


def _note(done: list[int], all_done: asyncio.Event, number: int, _: Batch | Refusal) -> None:
    done.append(number)
    if len(done) == 20:
        all_done.set()


async def test_batches_of_a_long_turn_are_validated_in_the_thread() -> None:
    """As of a request with many partitions: each batch alone is small. The order within a partition stays."""
    seconds = 0.0

    def clock() -> float:
        nonlocal seconds
        seconds += MOST_SECONDS_A_TURN / 4.5
        return seconds

    validation = BatchValidation(lambda: NOW_MS, clock)
    data = batch(produced((0, None, b"v"), base_ms=NOW_MS))
    for _ in range(2):
        done: list[int] = []
        all_done = asyncio.Event()
        for number in range(20):
            validation.validate(number % 10, data, LIMITS, partial(_note, done, all_done, number))
        assert done == [0, 1, 2, 3, 4], "in this turn"
        # The next turn or a later one: seconds that were spent in the turn of the last result do not count any more.
        await asyncio.wait_for(all_done.wait(), 20)
        for partition in range(10):
            assert [each for each in done if each % 10 == partition] == [partition, partition + 10]
    validation.close()
    validation.join()
