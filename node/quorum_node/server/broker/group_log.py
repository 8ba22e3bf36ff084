"""The log of a coordinator: one partition of `__consumer_offsets`, as its leader reads and writes it.

Owns the conversion between records and batches, and reading a log in pieces so that the loop is not blocked. Does not depend on the rules
of groups.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator

from quorum_node.broker.batch import Batch
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.produced_batch import read_produced
from quorum_node.coordinator.effects import Now
from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.group_table import NO_PRODUCER, GroupTable
from quorum_node.records.batches import CorruptBatch, Record, encode_batch
from quorum_node.records.group_records import (
    GroupRecord,
    OffsetRecord,
    group_record,
    offset_record,
    read_group_record,
)
from quorum_node.schema.schema import MalformedMessage
from quorum_node.server.broker.directory_threads import TURN_SECONDS
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.partition.port import clock_ms
from quorum_node.server.pieces import is_done
from quorum_node.storage.broker.batch_walk import BrokenBatch, FileBatch, batch_at
from quorum_node.storage.broker.codecs import UnknownCodec
from quorum_node.storage.broker.producer_walk import marker_of
from quorum_node.storage.broker.stored_records import decoded_records
from quorum_node.storage.broker.time_of_day import time_of_day_ms

_PIECE_BYTES = 256 << 10
"""Bytes that are read at once. Their replay takes some turns of the loop."""
_MOST_IN_LOOP = 200
"""Records of a batch that is encoded in the loop: this takes about 2 ms."""
_ALL_REPLICAS = -1
_NOT_STORED = {
    BrokerError.NONE: GroupError.NONE,
    BrokerError.NOT_ENOUGH_REPLICAS: GroupError.COORDINATOR_NOT_AVAILABLE,
    BrokerError.NOT_ENOUGH_REPLICAS_AFTER_APPEND: GroupError.COORDINATOR_NOT_AVAILABLE,
    BrokerError.REQUEST_TIMED_OUT: GroupError.COORDINATOR_NOT_AVAILABLE,
    BrokerError.UNKNOWN_TOPIC_OR_PARTITION: GroupError.COORDINATOR_NOT_AVAILABLE,
    BrokerError.NOT_LEADER_OR_FOLLOWER: GroupError.NOT_COORDINATOR,
    BrokerError.KAFKA_STORAGE_ERROR: GroupError.NOT_COORDINATOR,
}
"""The errors of a failed append. All other errors mean that the records are too large: UNKNOWN_SERVER_ERROR."""

_Records = Collection[OffsetRecord | GroupRecord]
_Stored = Callable[[GroupError], None]


class UnreadableLog(Exception):
    """A record that is invalid in every version known here."""


def now() -> Now:
    """The time on both clocks."""
    return Now(clock_ms(), time_of_day_ms())


class GroupLog:
    """The log of one coordinator. `timeout_ms`: maximum time that an append waits for the ISR."""

    def __init__(self, replica: HostedReplica, timeout_ms: int) -> None:
        self._replica = replica
        self._timeout_ms = timeout_ms
        self._waiting: deque[tuple[_Records, _Stored]] = deque()
        """Appends in their order, if the first one is being encoded on a thread."""
        self._replayed_to = 0
        self._encoding: asyncio.Future[bytes] | None = None
        self._closed = False

    async def load(self, table: GroupTable) -> int:
        """Read the whole log into `table`, or until `close`. Returns its size in bytes. Raises UnreadableLog, StorageFailure, DiskFull."""
        core = self._replica.core
        offset, size_bytes = core.start_offset, 0
        # Markers may be appended meanwhile, so the end is read again each time.
        while offset < core.written_offset and not self._closed:
            data = bytes(self._replica.log.read(offset, core.written_offset, _PIECE_BYTES))
            if not data:
                break
            size_bytes += len(data)
            await in_turns(self._replay(table, data))
            offset = self._replayed_to
            await asyncio.sleep(0)
        return size_bytes

    def append(self, records: _Records, stored: _Stored) -> None:
        """Append records in one batch. `stored` is called once, possibly before this returns."""
        if self._waiting or len(records) > _MOST_IN_LOOP:
            self._waiting.append((records, stored))
            if len(self._waiting) == 1:
                self._encode_first()
        else:
            self._produce(_encoded(records), stored)

    def close(self) -> None:
        """Append nothing more. In a later leader epoch, another coordinator may have read the log already."""
        self._closed = True
        self._waiting.clear()

    def _encode_first(self) -> None:
        """Many records would hold the loop. Later appends wait, as the order in the log counts."""
        loop = asyncio.get_running_loop()
        self._encoding = loop.run_in_executor(None, _encoded, self._waiting[0][0])
        self._encoding.add_done_callback(self._first_encoded)

    def _first_encoded(self, encoding: "asyncio.Future[bytes]") -> None:
        if self._closed:
            return
        _, stored = self._waiting.popleft()
        data = encoding.result()
        if self._waiting:
            self._encode_first()
        self._produce(data, stored)

    def _produce(self, data: bytes, stored: _Stored) -> None:
        batch = read_produced(data, self._replica.limits)
        if not isinstance(batch, Batch):
            stored(_NOT_STORED.get(batch, GroupError.UNKNOWN_SERVER_ERROR))
            return
        self._replica.produce(
            batch,
            _ALL_REPLICAS,
            float(self._timeout_ms),
            lambda error, offset: stored(_NOT_STORED.get(error, GroupError.UNKNOWN_SERVER_ERROR)),
        )

    def _replay(self, table: GroupTable, data: bytes) -> Iterator[None]:
        """Replay all batches of `data`, one record after the other."""
        at = 0
        try:
            while at < len(data):
                header = batch_at(data, at, at, len(data))
                yield from _replay_batch(table, header, data[at : header.end_position])
                at, self._replayed_to = header.end_position, header.end_offset
        except (BrokenBatch, CorruptBatch, UnknownCodec, MalformedMessage) as error:
            name = f"{self._replica.topic_name}-{self._replica.key.partition_id}"
            reason = f"{name}, after offset {self._replayed_to}: {error}"
            raise UnreadableLog(reason) from error


def _replay_batch(table: GroupTable, header: FileBatch, data: bytes) -> Iterator[None]:
    yield
    if not header.record_count:
        return  # an empty batch, which compaction keeps for its producer state
    if header.is_control:
        marker = marker_of(data)
        if marker is not None:
            table.offsets.end_transaction(header.producer_id, commit=not marker.is_abort)
        return
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER
    read_at = now()
    for record in decoded_records(data):
        if record.key is None:
            raise MalformedMessage(f"the record at offset {record.offset} has no key")
        table.replay(read_group_record(record.key, record.value), read_at, producer_id)
        yield


async def in_turns(work: Iterator[None]) -> None:
    """Do the work, for a short time in each turn of the loop."""
    while not is_done(work, TURN_SECONDS):  # noqa: ASYNC110 - other work of the loop is let through
        await asyncio.sleep(0)


def _encoded(records: _Records) -> bytes:
    """One batch. May run on another thread."""
    return encode_batch(
        base_offset=0,
        leader_epoch=-1,
        timestamp_ms=time_of_day_ms(),
        records=[_as_record(each) for each in records],
    )


def _as_record(record: OffsetRecord | GroupRecord) -> Record:
    if isinstance(record, OffsetRecord):
        return offset_record(record.key, record.value)
    return group_record(record.key, record.value)
