"""Fetch: records for consumers and followers, answered at once or when enough bytes are available.

Owns limits and waiting. The core decides what a replica may return. Every answer has session id 0: fetch sessions (KIP-227) are not
supported, so each request has to name all its partitions.
Source: the rules of a stock broker for Fetch 4 to 18; KIP-74 (at least one batch), KIP-595 (divergence), KIP-951.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from quorum_node.broker.epoch_history import NO_EPOCH
from quorum_node.broker.outputs import RefuseFetch, ReportDivergence, ServeFetch
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchNodeEndpoint,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
    FetchTopic,
    LeaderIdAndEpoch,
    ReplicaState,
)
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.hosted_replica import FetchAnswer, HostedReplica
from quorum_node.server.broker.produce_api import EndpointTo
from quorum_node.server.broker.topic_lookup import Found, May, anything, look_up
from quorum_node.server.broker.wire_errors import code_of
from quorum_node.server.listener.port import InboundRequest
from quorum_node.storage.broker.batch_walk import batch_at

_MAX_BYTES = 32 << 20
"""Maximum bytes of records in one answer, regardless of the request. It is below the maximum that this software's followers accept."""
_MAX_WAIT_MS = 60_000
_LARGE_BYTES = 4096
"""Of a request. With names of topics, a hundred partitions have so many."""
MAX_WAITING_OF_CONNECTION = 4
"""Further requests are answered at once. Clients and followers have one; each is looked at whenever one of its partitions moves."""
_FOLLOWERS_SERVE_SINCE = 11
"""First version in which a follower may serve a consumer (KIP-392)."""
_TOPIC_IDS_SINCE = 13
MOST_REFUSED_AT_ONCE = 1_000
"""Partitions of a request that do not exist, as of topics that were just deleted. Each costs 10 µs, and a request may have 50,000."""
_WHOLE = (0, -1)
"""Session epochs of requests that name all their partitions: the first one of a session, and one without a session."""
_READ_COMMITTED = 1
_Asked = tuple[FetchTopic, FetchPartition]


@dataclass(slots=True, eq=False)
class _Part:
    """One partition of a request. `answer`: the core's answer; None if the request was refused before it reached the core.

    `ready_bytes`: what can be read, as far as the request asks for it.
    """

    topic: FetchTopic
    asked: FetchPartition
    found: Found | None
    error: ErrorCode = ErrorCode.NONE
    answer: FetchAnswer | None = None
    ready_bytes: int = 0

    @property
    def replica(self) -> HostedReplica | None:
        """The local replica, or None."""
        return None if self.found is None else self.found.replica

    def keep_what_is_used(self, topics: dict[int, FetchTopic]) -> None:
        """Replace topic and partition by copies without other partitions and unknown fields. `topics`: the copies, by id of the original."""
        topic = self.topic
        self.topic = topics.setdefault(
            id(topic), FetchTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=())
        )
        self.asked = replace(self.asked, tagged_fields=())

    def answered(self, answer: FetchAnswer) -> None:
        """Store the core's answer, which replaces an earlier one."""
        self.answer = answer
        if isinstance(answer, RefuseFetch):
            self.error = code_of(answer.error)

    def count(self) -> bool:
        """Update `ready_bytes`. False if nothing has to be awaited: the answer is an error or a divergence."""
        answer, replica = self.answer, self.replica
        if not isinstance(answer, ServeFetch) or replica is None:
            return False
        self.ready_bytes = 0
        if answer.end_offset > answer.fetch_offset:
            # An estimate is enough: the exact count needs a look-up in the index.
            available = replica.bytes_from(answer.fetch_offset)
            self.ready_bytes = min(self.asked.partition_max_bytes, available)
        return True


@dataclass(slots=True, eq=False)
class _Waiting:
    """A fetch request; `timer` is set while it waits. `moved`: the parts whose replicas have changed since they were looked at.

    `ready_bytes`: those of all parts.
    """

    inbound: InboundRequest
    body: FetchRequest
    parts: list[_Part]
    timer: asyncio.TimerHandle | None = None
    ready_bytes: int = 0
    moved: dict[_Part, None] = field(default_factory=dict)
    watched: list[tuple[HostedReplica, Callable[[], None]]] = field(default_factory=list)

    def keep_what_is_used(self) -> None:
        """Keep no repetitions and no unknown fields while it waits: with those a request of any client has up to 8 MiB."""
        kept: dict[int, FetchTopic] = {}
        for part in self.parts:
            part.keep_what_is_used(kept)
        body = self.body
        epoch = body.replica_state.replica_epoch
        self.body = FetchRequest(
            replica_id=body.replica_id,
            replica_state=ReplicaState(replica_id=body.fetcher_id, replica_epoch=epoch),
            max_wait_ms=body.max_wait_ms,
            min_bytes=body.min_bytes,
            max_bytes=body.max_bytes,
            isolation_level=body.isolation_level,
            topics=tuple(kept[id(topic)] for topic in body.topics if id(topic) in kept),
        )
        self.inbound.keep_only(self.body)

    def park(self, moved: Callable[[_Part], None], timer: asyncio.TimerHandle) -> None:
        """Wait until the timer fires; `moved` is called with each part whose replica changes."""
        self.timer = timer
        for part in self.parts:
            if part.replica is not None:
                changed = partial(moved, part)
                part.replica.watch(changed)
                self.watched.append((part.replica, changed))

    def forget(self) -> None:
        """Stop waiting."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        watched, self.watched = self.watched, []
        for replica, changed in watched:
            replica.unwatch(changed)

    def note(self, part: _Part) -> bool:
        """Return True for the first part since the last look: the caller then schedules one."""
        was_empty = not self.moved
        self.moved[part] = None
        return was_empty

    def take_moved(self) -> tuple[_Part, ...]:
        """The parts to be looked at; the next change schedules another look."""
        moved, self.moved = self.moved, {}
        return tuple(moved)

    def is_due(self, changed: Iterable[_Part]) -> bool:
        """Whether to answer now: an error, a divergence, or enough bytes. Only these parts have changed since the last call."""
        for part in changed:
            before = part.ready_bytes
            if not part.count():
                return True
            self.ready_bytes += part.ready_bytes - before
        body = self.body
        return self.ready_bytes >= min(body.min_bytes, body.max_bytes, _MAX_BYTES)


class FetchApi:
    """The handler of Fetch. Each waiting request uses one timer, and one watcher per replica."""

    def __init__(self, replicas: AssignedReplicas, endpoint_to: EndpointTo) -> None:
        self._replicas = replicas
        self._endpoint_to = endpoint_to
        self._loop = asyncio.get_running_loop()
        self._waiting: Counter[object] = Counter()
        """Number of waiting requests, by connection."""

    def handle(self, inbound: InboundRequest, body: FetchRequest, may: May = anything) -> None:
        """Answer now or later, exactly once."""
        if body.session_epoch not in _WHOLE:
            inbound.reply(
                FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=())
            )
            return
        # Of a repeated partition only the last entry is used, as on a stock broker: thousands of repetitions would read as many batches.
        asked = {
            (topic.topic, topic.topic_id, each.partition): (topic, each)
            for topic in body.topics
            for each in topic.partitions
        }
        if len(asked) > self._replicas.image.topics.partition_count + MOST_REFUSED_AT_ONCE:
            inbound.in_pieces(self._refuse_in_pieces(inbound, body, list(asked.values()), may))
            return
        parts = [self._ask(inbound, body, topic, each, may) for topic, each in asked.values()]
        waiting = _Waiting(inbound, body, parts)
        if self._is_due(waiting):
            self._reply(waiting)
        else:
            self._wait(waiting)

    def _refuse_in_pieces(
        self, inbound: InboundRequest, body: FetchRequest, asked: list[_Asked], may: May
    ) -> Iterator[None]:
        """Answer a request of which many partitions do not exist, without waiting: a partition with an error ends the wait.

        Those that exist are asked last, and all at once: between two pieces their logs may be truncated.
        """
        found: list[_Asked] = []
        refused: list[FetchResponseTopic] = []
        refusals: list[FetchResponsePartition] = []
        for number, (topic, each) in enumerate(asked):
            error = self._look_up(inbound, topic, each, may)
            if isinstance(error, ErrorCode):
                refusals.append(self._answered(body, _Part(topic, each, None, error), b""))
            else:
                found.append((topic, each))
            yield
            is_last = number + 1 == len(asked) or asked[number + 1][0] is not topic
            if is_last and refusals:
                refused.append(_response_topic(topic, refusals))
                refusals = []
        parts = [self._ask(inbound, body, topic, each, may) for topic, each in found]
        self._reply(_Waiting(inbound, body, parts), refused)

    # -- the core's answers

    def _look_up(
        self, inbound: InboundRequest, topic: FetchTopic, asked: FetchPartition, may: May
    ) -> Found | ErrorCode:
        by_id = inbound.request.version >= _TOPIC_IDS_SINCE
        return look_up(
            self._replicas, topic.topic_id, topic.topic, asked.partition, may, by_id=by_id
        )

    def _ask(
        self,
        inbound: InboundRequest,
        body: FetchRequest,
        topic: FetchTopic,
        asked: FetchPartition,
        may: May,
    ) -> _Part:
        found = self._look_up(inbound, topic, asked, may)
        if isinstance(found, ErrorCode):
            return _Part(topic, asked, None, found)
        if found.replica is None:
            return _Part(topic, asked, found, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        part = _Part(topic, asked, found)
        self._step(inbound, body, part, found.replica)
        return part

    def _step(
        self, inbound: InboundRequest, body: FetchRequest, part: _Part, replica: HostedReplica
    ) -> None:
        asked = part.asked
        # A negative epoch means no epoch, as for a stock broker.
        leader_epoch = max(asked.current_leader_epoch, NO_EPOCH)
        last_fetched_epoch = max(asked.last_fetched_epoch, NO_EPOCH)
        if _is_consumer(body):
            answer = replica.consumer_fetched(
                asked.fetch_offset,
                leader_epoch,
                last_fetched_epoch,
                only_leader=inbound.request.version < _FOLLOWERS_SERVE_SINCE,
            )
            if body.isolation_level == _READ_COMMITTED and isinstance(answer, ServeFetch):
                stable = max(asked.fetch_offset, replica.last_stable_offset)
                answer = replace(answer, end_offset=min(answer.end_offset, stable))
        else:
            answer = replica.follower_fetched(
                body.fetcher_id,
                body.replica_state.replica_epoch,
                leader_epoch,
                asked.fetch_offset,
                last_fetched_epoch,
                asked.log_start_offset,
            )
        part.answered(self._held_back(body, replica, answer))

    def _held_back(
        self, body: FetchRequest, replica: HostedReplica, answer: FetchAnswer
    ) -> FetchAnswer:
        """The answer without records, for a throttled follower while the throttle is exceeded."""
        throttles = self._replicas.throttles
        if isinstance(answer, ServeFetch) and throttles.holds_back(replica, body.fetcher_id):
            return replace(answer, end_offset=answer.fetch_offset)
        return answer

    # -- waiting

    def _is_due(self, waiting: _Waiting) -> bool:
        """Whether to answer now: see `_Waiting.is_due`; also an empty request, or one with a wait time of 0."""
        is_waiting = waiting.body.max_wait_ms > 0 and bool(waiting.parts)
        return not is_waiting or waiting.is_due(waiting.parts)

    def _wait(self, waiting: _Waiting) -> None:
        connection = waiting.inbound.connection
        if self._waiting[connection] >= MAX_WAITING_OF_CONNECTION:
            self._reply(waiting)
            return
        self._waiting[connection] += 1
        if waiting.inbound.size_bytes > _LARGE_BYTES:
            waiting.keep_what_is_used()

        def moved(part: _Part) -> None:
            # Called within a step of a replica: check after the step.
            if waiting.note(part):
                self._loop.call_soon(self._look, waiting)

        seconds = min(waiting.body.max_wait_ms, _MAX_WAIT_MS) / 1000
        waiting.park(moved, self._loop.call_later(seconds, self._over, waiting))
        waiting.inbound.when_abandoned(lambda: self._forget(waiting))

    def _forget(self, waiting: _Waiting) -> None:
        if waiting.timer is None:
            return
        waiting.forget()
        connection = waiting.inbound.connection
        self._waiting[connection] -= 1
        if not self._waiting[connection]:
            del self._waiting[connection]

    def _look(self, waiting: _Waiting) -> None:
        """Look at what has moved alone: a request that waits for many bytes of many partitions is looked at again and again."""
        moved = waiting.take_moved()
        if waiting.timer is None:
            return
        for part in moved:
            self._refresh(waiting, part)
        if waiting.is_due(moved):
            self._over(waiting)

    def _over(self, waiting: _Waiting) -> None:
        self._forget(waiting)
        for part in waiting.parts:
            self._refresh(waiting, part)
        self._reply(waiting)

    def _refresh(self, waiting: _Waiting, part: _Part) -> None:
        """Update the answer. For a follower of an unchanged leader the core is not stepped, because the follower has not fetched again."""
        replica, answer = part.replica, part.answer
        if replica is None or not isinstance(answer, ServeFetch):
            return
        core, epoch = replica.core, part.asked.current_leader_epoch
        same = epoch < 0 or epoch == core.leader_epoch
        if not _is_consumer(waiting.body) and same and replica.is_leader:
            now = ServeFetch(
                answer.request_id,
                answer.fetch_offset,
                core.end_offset,
                core.high_watermark,
                core.start_offset,
            )
            part.answered(self._held_back(waiting.body, replica, now))
        else:
            self._step(waiting.inbound, waiting.body, part, replica)

    # -- answers

    def _reply(self, waiting: _Waiting, refused: Iterable[FetchResponseTopic] = ()) -> None:
        """`refused`: the answers about partitions that are not among the parts."""
        body, inbound = waiting.body, waiting.inbound
        left_bytes = min(max(body.max_bytes, 0), _MAX_BYTES)
        is_first = True
        by_topic: dict[int, list[FetchResponsePartition]] = {}
        leaders: set[int] = set()
        for part in waiting.parts:
            records: bytes | memoryview = b""
            if isinstance(part.answer, ServeFetch) and part.replica is not None:
                records = self._read(part.answer, part.replica, part.asked, left_bytes, is_first)
                self._replicas.throttles.sent(part.replica, body.fetcher_id, len(records))
                is_first = is_first and not records
                left_bytes = max(0, left_bytes - len(records))
            answered = self._answered(body, part, records)
            leaders.add(answered.current_leader.leader_id)
            by_topic.setdefault(id(part.topic), []).append(answered)
        responses = tuple(
            _response_topic(topic, by_topic[id(topic)])
            for topic in body.topics
            if id(topic) in by_topic
        )
        endpoints = self._endpoints(leaders - {-1}, inbound.caller.listener)
        inbound.reply(FetchResponse(responses=(*responses, *refused), node_endpoints=endpoints))

    def _read(
        self,
        answer: ServeFetch,
        replica: HostedReplica,
        asked: FetchPartition,
        left_bytes: int,
        is_first: bool,
    ) -> bytes | memoryview:
        """Read whole batches, as many as fit; at least one for the first partition with records in an answer."""
        limit = min(asked.partition_max_bytes, left_bytes)
        if answer.end_offset <= answer.fetch_offset or (limit <= 0 and not is_first):
            return b""
        records = replica.read(answer, max(limit, 0))
        if len(records) > limit and not is_first:
            return b""
        return records

    def _answered(
        self, body: FetchRequest, part: _Part, records: bytes | memoryview
    ) -> FetchResponsePartition:
        answer, asked = part.answer, part.asked
        aborted: tuple[AbortedTransaction, ...] | None = None
        if body.isolation_level == _READ_COMMITTED and _is_consumer(body):
            aborted = ()
        if isinstance(answer, ServeFetch) and part.replica is not None:
            if aborted is not None:
                aborted = _aborted(part.replica, answer.fetch_offset, records)
            return FetchResponsePartition(
                partition_index=asked.partition,
                error_code=ErrorCode.NONE,
                high_watermark=answer.high_watermark,
                last_stable_offset=part.replica.last_stable_offset,
                log_start_offset=answer.log_start_offset,
                aborted_transactions=aborted,
                records=records,
            )
        if isinstance(answer, ReportDivergence) and part.replica is not None:
            core = part.replica.core
            end = EpochEndOffset(epoch=answer.leader.epoch, end_offset=answer.leader.end_offset)
            return FetchResponsePartition(
                partition_index=asked.partition,
                error_code=ErrorCode.NONE,
                high_watermark=core.high_watermark,
                last_stable_offset=part.replica.last_stable_offset,
                log_start_offset=core.start_offset,
                diverging_epoch=end,
            )
        leader = LeaderIdAndEpoch()
        moved = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
        if part.error in moved and part.found is not None:
            partition = part.found.partition
            leader = LeaderIdAndEpoch(
                leader_id=partition.leader, leader_epoch=partition.leader_epoch
            )
        return FetchResponsePartition(
            partition_index=asked.partition,
            error_code=part.error,
            high_watermark=-1,
            current_leader=leader,
            # Like a stock broker: what is refused before the replica is looked up has an empty list.
            aborted_transactions=() if part.found is None else None,
        )

    def _endpoints(self, leaders: set[int], listener: str) -> tuple[FetchNodeEndpoint, ...]:
        found = []
        for broker_id in sorted(leaders):
            endpoint = self._endpoint_to(broker_id, listener)
            if endpoint is not None:
                host, port, rack = endpoint
                found.append(FetchNodeEndpoint(node_id=broker_id, host=host, port=port, rack=rack))
        return tuple(found)


def _response_topic(
    topic: FetchTopic, partitions: Iterable[FetchResponsePartition]
) -> FetchResponseTopic:
    return FetchResponseTopic(
        topic=topic.topic, topic_id=topic.topic_id, partitions=tuple(partitions)
    )


def _is_consumer(body: FetchRequest) -> bool:
    """Whether a consumer sent the request: broker ids are not negative; -1 is a consumer, -2 a debugging consumer."""
    return body.fetcher_id < 0


def _aborted(
    replica: HostedReplica, offset: int, records: bytes | memoryview
) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions whose records the consumer has to skip."""
    end_offset, at = offset, 0
    while at < len(records):
        header = batch_at(records, at, at, len(records))
        end_offset, at = header.end_offset, header.end_position
    return tuple(
        AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
        for producer_id, first_offset in replica.log.aborted_between(offset, end_offset)
    )
