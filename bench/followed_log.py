"""The metadata log as an observer receives it, and the times at which it learned that each part is committed.

Owns one connection that fetches from the leader, and the analysis of the fetched records: when a failed broker leads no partition
and is in no ISR any more. Nothing is decoded during a measurement; the log is analysed afterwards. Brokers act on the log, so this
is the time at which they can know it.
"""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import uuid4

from kafka_client import Address
from light_brokers import Connection
from time_limits import within

from quorum_node.protocol.apis import FETCH
from quorum_node.protocol.fetch import (
    NO_SNAPSHOT,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from quorum_node.records.batches import Batch, split_batches
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.metadata import (
    LEADER_UNCHANGED,
    NO_LEADER,
    AnyMetadata,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    decode_metadata,
)
from quorum_node.records.plain_records import record_values
from quorum_node.server.wire.partitions import METADATA_TOPIC_ID

FETCH_VERSION = 18
"""A version with the observer's high watermark: a newer one is reported without waiting for records."""
OBSERVER_ID = 10_000
MAX_BYTES = 8 << 20
MAX_WAIT_MS = 20
"""Longest time between two checks without responses: the resolution in the worst case."""
QUIET_SECONDS = 0.25
"""Time without records after which the received ones are evaluated. An idle stock leader writes a record every half second."""

PartitionId = tuple[int, int]


@dataclass
class FollowedLog:
    """`offset`: of the next fetch, in the log of the leader of `epoch`."""

    address: Address
    cluster_id: str
    epoch: int
    offset: int
    high_watermark: int = -1
    last_arrival: float = 0.0
    _key: ReplicaKey = field(default_factory=lambda: ReplicaKey(OBSERVER_ID, uuid4()))
    _fetched: list[Batch] = field(default_factory=list)
    _told: list[float] = field(default_factory=list)
    _told_offsets: list[int] = field(default_factory=list)

    async def follow(self) -> None:
        """Fetch without end from the leader that was known at the start."""
        connection = await Connection.open(self.address)
        while True:
            answer = await connection.ask(FETCH, FETCH_VERSION, self._request())
            assert isinstance(answer, FetchResponse)
            partition = answer.responses[0].partitions[0]
            if partition.error_code or partition.snapshot_id != NO_SNAPSHOT:
                text = f"error {partition.error_code}, snapshot {partition.snapshot_id}"
                raise RuntimeError(f"fetch at {self.offset}: {text}")
            self._take(partition.records, partition.high_watermark)

    def _take(self, records: bytes | memoryview | None, high_watermark: int) -> None:
        now = time.perf_counter()
        batches, _ = split_batches(records or b"")
        if batches:
            self._fetched += batches
            self.offset = batches[-1].header.end_offset
            self.last_arrival = now
        # A committed offset beyond the local end is reported again with the records.
        known = min(high_watermark, self.offset)
        if known > self.high_watermark:
            self.high_watermark = known
            self._told.append(now)
            self._told_offsets.append(known)

    def _request(self) -> FetchRequest:
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=self.epoch,
            fetch_offset=self.offset,
            last_fetched_epoch=self.epoch,
            partition_max_bytes=MAX_BYTES,
            replica_directory_id=self._key.uuid,
            high_watermark=self.high_watermark,
        )
        return FetchRequest(
            cluster_id=self.cluster_id,
            replica_state=ReplicaState(replica_id=self._key.id),
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=0,
            max_bytes=MAX_BYTES,
            topics=(FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        )

    @property
    def is_quiet(self) -> bool:
        """Whether everything received is committed and nothing has arrived for a while."""
        quiet = time.perf_counter() - self.last_arrival > QUIET_SECONDS
        return quiet and self.high_watermark == self.offset

    def committed_at(self, offset: int) -> float:
        """Time at which this observer learned that the record at `offset` is committed."""
        return self._told[bisect_right(self._told_offsets, offset)]

    def take_batches(self) -> list[Batch]:
        """The batches that arrived since the last call."""
        fetched, self._fetched = self._fetched, []
        return fetched


@dataclass
class PartitionStates:
    """Leaders and ISRs from the log, up to the position of the last call."""

    log: FollowedLog
    leaders: dict[PartitionId, int] = field(default_factory=dict)
    isrs: dict[PartitionId, tuple[int, ...]] = field(default_factory=dict)

    def catch_up(self) -> int:
        """Read everything received; returns the number of partitions."""
        for _, record in self._records():
            self._replay(record)
        return len(self.leaders)

    def of(self, broker_id: int) -> set[PartitionId]:
        """Partitions that a broker leads, or whose ISR contains it."""
        return {key for key in self.leaders if not self._is_settled(key, broker_id)}

    async def settled(self, failed: int, timeout_seconds: float) -> "Settled":
        """Wait until the failed broker is in no ISR and every partition has a leader. Raises TimeoutError."""
        waiting = self.of(failed)
        affected, last, fenced = len(waiting), -1, -1
        async with within(timeout_seconds, f"{affected} partitions without broker {failed}"):
            while waiting or fenced < 0:
                await asyncio.sleep(0.05)
                if not self.log.is_quiet:
                    continue
                for offset, record in self._records():
                    if isinstance(record, BrokerRegistrationChangeRecord):
                        if fenced < 0 and record.broker_id == failed and record.fenced == 1:
                            fenced = offset
                        continue
                    key = self._replay(record)
                    if key in waiting and self._is_settled(key, failed):
                        waiting.discard(key)
                        last = offset
        return Settled(affected, self.log.committed_at(fenced), self.log.committed_at(last))

    def _records(self) -> Iterator[tuple[int, AnyMetadata]]:
        for batch in self.log.take_batches():
            if batch.header.is_control:
                continue
            for index, value in enumerate(record_values(batch)):
                yield batch.header.base_offset + index, decode_metadata(value)

    def _replay(self, record: AnyMetadata) -> PartitionId | None:
        if isinstance(record, PartitionRecord):
            key = (record.topic_id.int, record.partition_id)
            self.leaders[key], self.isrs[key] = record.leader, record.isr
        elif isinstance(record, PartitionChangeRecord):
            key = (record.topic_id.int, record.partition_id)
            if record.leader != LEADER_UNCHANGED:
                self.leaders[key] = record.leader
            if record.isr is not None:
                self.isrs[key] = record.isr
        else:
            return None
        return key

    def _is_settled(self, key: PartitionId, failed: int) -> bool:
        leader = self.leaders[key]
        return leader not in (failed, NO_LEADER) and failed not in self.isrs[key]


@dataclass(frozen=True)
class Settled:
    """Times at which the fencing was committed, and the last resulting change of a partition."""

    affected: int
    fenced_at: float
    settled_at: float
