"""Sends the fetch requests of followers: one request at a time to each broker that leads partitions replicated here.

Owns which partitions are fetched from which broker, pauses after errors, and the translation of answers into events. The cores
decide on truncation and ISRs, and ignore late answers.
Source: KIP-595 (divergence in the answer), KIP-516 (topics by id); the rules of a stock replica fetcher.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from quorum_node.broker.epoch_history import EpochEnd
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import (
    BatchesFetched,
    FetchPosition,
    FetchRefused,
    LogDiverged,
    RangeAnswered,
)
from quorum_node.broker.outputs import AskRange
from quorum_node.configuration.broker_config import BrokerConfig
from quorum_node.image.topics import PartitionKey
from quorum_node.protocol.broker_apis import DATA_FETCH, LIST_OFFSETS
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import (
    NO_DIVERGENCE,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchTopic,
    ReplicaState,
)
from quorum_node.protocol.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from quorum_node.raft.events import FailureReason
from quorum_node.records.batches import CorruptBatch
from quorum_node.records.identity import Endpoint
from quorum_node.schema.schema import Message
from quorum_node.server.broker.directory_threads import TURN_SECONDS
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.fetched_batches import fetched_batches
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.replication_throttles import ReplicationThrottles
from quorum_node.server.peers.port import Peers
from quorum_node.server.pieces import is_done

_PAUSE_SECONDS = 0.1
"""Pause after an error of one partition, or of a whole request, in seconds."""
_MARGIN_MS = 10_000
"""Time that an answer may take in addition to the leader's maximum wait, in milliseconds."""
_FATAL: dict[int, BrokerError] = {
    ErrorCode.FENCED_LEADER_EPOCH: BrokerError.FENCED_LEADER_EPOCH,
    ErrorCode.OFFSET_OUT_OF_RANGE: BrokerError.OFFSET_OUT_OF_RANGE,
}
"""Errors that are passed to the core; all others are temporary."""

EndpointOf = Callable[[int], Endpoint | None]


@dataclass(slots=True)
class _Leader:
    """The fetching from one leader. `resting`: partitions that are paused after an error."""

    replicas: dict[PartitionKey, HostedReplica] = field(default_factory=dict)
    resting: set[PartitionKey] = field(default_factory=set)
    in_flight: bool = False
    paused: bool = False
    next_first: int = 0

    @property
    def is_free(self) -> bool:
        """Whether a request may be sent."""
        return not (self.in_flight or self.paused)

    def asked(self) -> None:
        """Note that a request is in flight."""
        self.in_flight = True

    def answered(self) -> None:
        """Note that the request is done."""
        self.in_flight = False

    def pause(self) -> None:
        """Suspend requests."""
        self.paused = True

    def resume(self) -> None:
        """Resume requests."""
        self.paused = False

    def in_turn(self) -> list[PartitionKey]:
        """All partitions, starting with a different one at each call."""
        keys = list(self.replicas)
        self.next_first += 1
        turn = self.next_first % len(keys) if keys else 0
        return keys[turn:] + keys[:turn]


class Fetchers:
    """Fetches for all local followers. `own`: (broker id, broker epoch) of this run. `endpoint_of`: a broker's endpoint for brokers."""

    def __init__(
        self,
        peers: Peers,
        config: BrokerConfig,
        own: Callable[[], tuple[int, int]],
        endpoint_of: EndpointOf,
        events: BrokerEvents,
    ) -> None:
        self._peers = peers
        self._config = config
        self._own = own
        self._endpoint_of = endpoint_of
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._leaders: dict[int, _Leader] = {}
        self._leader_of: dict[PartitionKey, int] = {}
        self._scheduled: set[int] = set()
        self._closed = False
        self._throttles: ReplicationThrottles | None = None

    def throttle(self, throttles: ReplicationThrottles) -> None:
        """Fetch throttled replicas only as far as these throttles permit."""
        self._throttles = throttles

    def start(self, replica: HostedReplica, leader_id: int) -> None:
        """Fetch this replica only from the broker `leader_id` from now on."""
        self.stop(replica)
        self._leader_of[replica.key] = leader_id
        self._leaders.setdefault(leader_id, _Leader()).replicas[replica.key] = replica
        self._fetch_from_soon(leader_id)

    def stop(self, replica: HostedReplica) -> None:
        """Stop fetching. The core ignores an answer that is in flight."""
        leader_id = self._leader_of.pop(replica.key, None)
        if leader_id is not None:
            leader = self._leaders[leader_id]
            leader.replicas.pop(replica.key, None)
            leader.resting.discard(replica.key)

    def fetch_soon(self, replica: HostedReplica) -> None:
        """Fetch if possible: the replica's fetch position may have changed."""
        leader_id = self._leader_of.get(replica.key)
        if leader_id is not None:
            self._fetch_from_soon(leader_id)

    def close(self) -> None:
        """Stop all fetching."""
        self._closed = True

    # -- fetching

    def _fetch_from_soon(self, leader_id: int) -> None:
        if leader_id not in self._scheduled:
            self._scheduled.add(leader_id)
            self._loop.call_soon(self._fetch_from, leader_id)

    def _fetch_from(self, leader_id: int) -> None:
        self._scheduled.discard(leader_id)
        leader = self._leaders[leader_id]
        if self._closed or not leader.is_free:
            return
        asked = self._positions(leader_id, leader)
        if not asked:
            return
        endpoint = self._endpoint_of(leader_id)
        if endpoint is None:
            self._pause(leader_id, leader)
            return
        leader.asked()
        request = self._request(asked.values())

        def answered(outcome: Message | FailureReason) -> None:
            if isinstance(outcome, FetchResponse) and not outcome.error_code:
                self._take(leader_id, leader, self._taken(leader_id, leader, asked, outcome))
            else:
                leader.answered()
                self._pause(leader_id, leader)

        timeout_ms = self._config.fetch_wait_max_ms + _MARGIN_MS
        self._peers.ask(endpoint, DATA_FETCH, request, answered, timeout_ms=timeout_ms)

    def _positions(
        self, leader_id: int, leader: _Leader
    ) -> dict[PartitionKey, tuple[HostedReplica, FetchPosition]]:
        """The positions to fetch. They start with a different partition at each call, because the bytes of an answer are limited."""
        found = {}
        for key in leader.in_turn():
            replica = leader.replicas[key]
            position = replica.core.fetch_position
            if position is None or key in leader.resting:
                continue
            if self._throttles is not None and self._throttles.waits(replica):
                self._rest(leader_id, leader, key)
            else:
                found[key] = replica, position
        return found

    def _request(self, asked: Iterable[tuple[HostedReplica, FetchPosition]]) -> FetchRequest:
        broker_id, broker_epoch = self._own()
        topics: list[FetchTopic] = []
        for replica, position in asked:
            partition = FetchPartition(
                partition=replica.key.partition_id,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.fetch_offset,
                last_fetched_epoch=position.last_fetched_epoch,
                log_start_offset=replica.core.start_offset,
                partition_max_bytes=self._config.partition_max_bytes,
                high_watermark=replica.core.high_watermark,
            )
            topics.append(
                FetchTopic(
                    topic=replica.topic_name,
                    topic_id=replica.key.topic_id,
                    partitions=(partition,),
                )
            )
        return FetchRequest(
            replica_id=broker_id,
            replica_state=ReplicaState(replica_id=broker_id, replica_epoch=broker_epoch),
            max_wait_ms=self._config.fetch_wait_max_ms,
            min_bytes=1,
            max_bytes=self._config.fetch_max_bytes,
            topics=tuple(topics),
        )

    def _take(self, leader_id: int, leader: _Leader, work: Iterator[None]) -> None:
        """Handle an answer in turns of the loop. The next request follows afterwards.

        When a broker has failed, hundreds of logs may have to be truncated. Each truncation waits for the disk.
        """
        if self._closed:
            return
        if is_done(work, TURN_SECONDS):
            leader.answered()
            self._fetch_from_soon(leader_id)
        else:
            self._loop.call_soon(self._take, leader_id, leader, work)

    def _taken(
        self,
        leader_id: int,
        leader: _Leader,
        asked: dict[PartitionKey, tuple[HostedReplica, FetchPosition]],
        answer: FetchResponse,
    ) -> Iterator[None]:
        """Handles the answer for one partition after the other."""
        is_first = True
        for topic in answer.responses:
            if topic.topic_id is None:
                continue
            for each in topic.partitions:
                if not is_first:
                    yield
                is_first = False
                key = PartitionKey(topic.topic_id, each.partition_index)
                found = asked.get(key)
                if found is None or leader.replicas.get(key) is not found[0]:
                    continue
                if self._throttles is not None:
                    self._throttles.received(found[0], len(each.records or b""))
                if not self._take_one(*found, each):
                    self._rest(leader_id, leader, key)

    def _take_one(
        self, replica: HostedReplica, position: FetchPosition, answer: FetchResponsePartition
    ) -> bool:
        """Handle the answer for one partition. Returns False if the next fetch has to wait for a pause."""
        if answer.error_code:
            error = _FATAL.get(answer.error_code)
            if error is not None:
                replica.take(FetchRefused(position, error))
            return False
        if answer.diverging_epoch != NO_DIVERGENCE:
            end = EpochEnd(answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset)
            self._events.diverged(replica, end.epoch, end.end_offset)
            replica.take(LogDiverged(position, end))
            return True
        try:
            batches = fetched_batches(answer.records or b"")
        except CorruptBatch as error:
            self._events.corrupt_fetch(replica, position.leader_id, str(error))
            return False
        replica.take(
            BatchesFetched(position, batches, answer.high_watermark, answer.log_start_offset)
        )
        if not batches or replica.core.fetch_position != position:
            return True
        # None of the batches continues the log. Without a pause, the next answer would come at once, with the same batches.
        if batches[0].leader_epoch <= position.leader_epoch:
            why = f"offset {batches[0].base_offset} in epoch {batches[0].leader_epoch} does not follow {position.fetch_offset}"
            self._events.corrupt_fetch(replica, position.leader_id, why)
        return False

    def _rest(self, leader_id: int, leader: _Leader, key: PartitionKey) -> None:
        leader.resting.add(key)
        self._loop.call_later(_PAUSE_SECONDS, self._rested, leader_id, key)

    def _rested(self, leader_id: int, key: PartitionKey) -> None:
        self._leaders[leader_id].resting.discard(key)
        self._fetch_from_soon(leader_id)

    def _pause(self, leader_id: int, leader: _Leader) -> None:
        leader.pause()

        def over() -> None:
            leader.resume()
            self._fetch_from_soon(leader_id)

        self._loop.call_later(_PAUSE_SECONDS, over)

    # -- start and end of the leader's log

    def ask_range(self, replica: HostedReplica, output: AskRange) -> None:
        """Request the start and end offsets, one after the other. Retries after a pause as long as the core needs them."""

        def asked(timestamp: int, done: Callable[[int], None]) -> None:
            self._ask_offset(replica, output, timestamp, done)

        def started(start_offset: int) -> None:
            asked(LATEST_TIMESTAMP, lambda end_offset: ended(start_offset, end_offset))

        def ended(start_offset: int, end_offset: int) -> None:
            replica.take(RangeAnswered(output.leader_epoch, start_offset, end_offset))
            self.fetch_soon(replica)

        asked(EARLIEST_TIMESTAMP, started)

    def _ask_offset(
        self,
        replica: HostedReplica,
        output: AskRange,
        timestamp: int,
        done: Callable[[int], None],
    ) -> None:
        def again() -> None:
            core = replica.core
            if core.asks_range and core.leader_epoch == output.leader_epoch and not self._closed:
                self.ask_range(replica, output)

        def answered(outcome: Message | FailureReason) -> None:
            offset = _offset_in(outcome)
            if offset is None:
                self._loop.call_later(_PAUSE_SECONDS, again)
            else:
                done(offset)

        endpoint = self._endpoint_of(output.leader_id)
        if endpoint is None:
            self._loop.call_later(_PAUSE_SECONDS, again)
            return
        partition = ListOffsetsPartition(
            partition_index=replica.key.partition_id,
            current_leader_epoch=output.leader_epoch,
            timestamp=timestamp,
        )
        request = ListOffsetsRequest(
            replica_id=self._own()[0],
            topics=(ListOffsetsTopic(name=replica.topic_name, partitions=(partition,)),),
        )
        self._peers.ask(endpoint, LIST_OFFSETS, request, answered, timeout_ms=_MARGIN_MS)


def _offset_in(outcome: Message | FailureReason) -> int | None:
    if not isinstance(outcome, ListOffsetsResponse):
        return None
    for topic in outcome.topics:
        for each in topic.partitions:
            return None if each.error_code else each.offset
    return None
