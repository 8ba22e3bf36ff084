"""Validates batches of producers for a partition, in the order in which they arrived.

Owns the choice between the event loop and a thread: a batch with many records, or with a large decompressed size, would block
all other requests. Does not append batches.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import thread_time

from quorum_node.broker.batch import Batch
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.produced_batch import BatchLimits, check_size
from quorum_node.broker.produced_records import Refusal, check_records, restamped
from quorum_node.records.batches import COMPRESSION_MASK, HEADER_BYTES, read_header
from quorum_node.records.record_walk import ManyHeaders, OutOfOrder, renumbered, walk_records
from quorum_node.schema.primitives import MalformedRecord
from quorum_node.storage.broker.codecs import (
    MOST_BYTES,
    BadContent,
    ContentTooLarge,
    deflate,
    inflate,
)

MOST_RECORDS_ON_LOOP = 2_000
"""Validating this number of records takes a few milliseconds."""
MOST_BYTES_ON_LOOP = 1 << 20
MOST_HEADERS_ON_LOOP = 4_000
MOST_SECONDS_A_TURN = 0.02
"""CPU time for the batches of one turn of the loop. A request can have batches for thousands of partitions."""
_OUT_OF_ORDER = Refusal(
    BrokerError.UNKNOWN_SERVER_ERROR, "the offset deltas of compressed records are not 0, 1, 2 ..."
)

Validated = Callable[[Batch | Refusal], None]


def validated(
    batch: Batch, limits: BatchLimits, now_ms: int, most_bytes: int = MOST_BYTES
) -> Batch | Refusal:
    """The batch in the form to append, or the refusal. `batch`: a result of `read_produced`; `now_ms`: milliseconds since 1970.

    Raises ContentTooLarge if the records decompress to more than `most_bytes` and that is less than MOST_BYTES, and ManyHeaders if they
    then have more than MOST_HEADERS_ON_LOOP headers.
    """
    data = bytes(batch.data)  # type: ignore[call-overload]
    header = read_header(data)
    codec = header.attributes & COMPRESSION_MASK
    target = codec if limits.codec is None else limits.codec
    try:
        content = inflate(codec, data[HEADER_BYTES:], most_bytes) if codec else None
        walked = walk_records(
            data if content is None else content,
            HEADER_BYTES if content is None else 0,
            header.record_count,
            most_headers=MOST_HEADERS_ON_LOOP if most_bytes < MOST_BYTES else sys.maxsize,
            needs_order=bool(codec)
            and target == codec
            and header.record_count > MOST_RECORDS_ON_LOOP,
        )
    except OutOfOrder:
        return _OUT_OF_ORDER
    except ContentTooLarge as error:
        if most_bytes < MOST_BYTES:
            raise
        return Refusal(BrokerError.UNKNOWN_SERVER_ERROR, f"the records can't be read: {error}")
    except BadContent as error:
        return Refusal(BrokerError.UNKNOWN_SERVER_ERROR, f"the records can't be read: {error}")
    except MalformedRecord as error:
        return Refusal(BrokerError.INVALID_RECORD, f"the records can't be read: {error}")
    stamp = check_records(header, walked, limits, now_ms)
    if isinstance(stamp, Refusal):
        return stamp
    wanted = (stamp.attributes, stamp.max_timestamp_ms, target)
    if walked.is_in_order and wanted == (header.attributes, header.max_timestamp_ms, codec):
        return _within(limits, batch)
    if not walked.is_in_order and content is not None and target == codec:
        return _OUT_OF_ORDER
    recoded = None
    if target != codec or not walked.is_in_order:
        plain = data[HEADER_BYTES:] if content is None else content
        if not walked.is_in_order:
            plain = renumbered(plain, 0, header.record_count)
        recoded = deflate(target, plain, limits.codec_level) if target else plain
    changed = restamped(data, stamp, target, recoded)
    return _within(
        limits,
        batch._replace(
            data=changed, size_bytes=len(changed), max_timestamp_ms=stamp.max_timestamp_ms
        ),
    )


def _within(limits: BatchLimits, batch: Batch) -> Batch | Refusal:
    oversize = check_size(batch.size_bytes, limits)
    return batch if oversize is BrokerError.NONE else Refusal(oversize, oversize.value)


class BatchValidation:
    """Validates batches on the loop or on one thread. `now_ms`: returns milliseconds since 1970. `clock`: seconds of CPU."""

    def __init__(self, now_ms: Callable[[], int], clock: Callable[[], float] = thread_time) -> None:
        self._now_ms = now_ms
        self._clock = clock
        self._spent_seconds = 0.0
        """On the loop in its present turn."""
        self._waiting: dict[Hashable, deque[tuple[Batch, BatchLimits, Validated]]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._closed = False

    def close(self) -> None:
        """Drop all waiting and running validations, because the replicas are about to be closed."""
        self._closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Wait, after `close`, until the thread has ended. Blocks."""
        self._thread.shutdown(wait=True)

    def validate(
        self, partition: Hashable, batch: Batch, limits: BatchLimits, then: Validated
    ) -> None:
        """Call `then` once with the result, possibly before this returns. Results of one partition come in the order of the calls.

        After `close` it is not called.
        """
        if self._closed:
            return
        waiting = self._waiting.get(partition)
        if waiting is not None:
            waiting.append((with_own_bytes(batch), limits, then))
            return
        result = self._on_loop(batch, limits)
        if result is not None:
            then(result)
            return
        self._waiting[partition] = deque()
        self._in_thread(partition, with_own_bytes(batch), limits, then)

    def _on_loop(self, batch: Batch, limits: BatchLimits) -> Batch | Refusal | None:
        """The result, or None if the batch has to be validated on the thread."""
        if batch.end_offset - batch.base_offset > MOST_RECORDS_ON_LOOP:
            return None
        if self._spent_seconds > MOST_SECONDS_A_TURN:
            return None
        begun = self._clock()
        try:
            return validated(batch, limits, self._now_ms(), MOST_BYTES_ON_LOOP)
        except (ContentTooLarge, ManyHeaders):
            return None
        finally:
            if not self._spent_seconds:
                asyncio.get_running_loop().call_soon(self._turn_ended)
            self._spent_seconds += self._clock() - begun

    def _turn_ended(self) -> None:
        self._spent_seconds = 0.0

    def _in_thread(
        self, partition: Hashable, batch: Batch, limits: BatchLimits, then: Validated
    ) -> None:
        work = asyncio.get_running_loop().run_in_executor(
            self._thread, validated, batch, limits, self._now_ms()
        )
        work.add_done_callback(partial(self._ended, partition, then))

    def _ended(
        self, partition: Hashable, then: Validated, work: asyncio.Future[Batch | Refusal]
    ) -> None:
        if self._closed or work.cancelled():
            return
        then(work.result())
        waiting = self._waiting.get(partition)
        while waiting:
            batch, limits, then = waiting.popleft()
            result = self._on_loop(batch, limits)
            if result is None:
                self._in_thread(partition, batch, limits, then)
                return
            then(result)
        self._waiting.pop(partition, None)


def with_own_bytes(batch: Batch) -> Batch:
    """The batch with a copy of its bytes: the buffer of the request may be reused while the batch waits."""
    return batch._replace(data=bytes(batch.data))  # type: ignore[call-overload]
