"""Fetch: records for consumers and followers, answered at once or when enough bytes are available.

Owns limits and waiting. The core decides what a replica may return. Every answer has session id 0: fetch sessions (KIP-227) are not
supported, so each request has to name all its partitions.
Source: the rules of a stock broker for Fetch 4 to 18; KIP-74 (at least one batch), KIP-595 (divergence), KIP-951.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from quorum_node.broker.epoch_history import NO_EPOCH
from quorum_node.broker.outputs import ServeFetch
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import (
    FetchNodeEndpoint,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
    FetchTopic,
)
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.fetch_answers import (
    answered,
    is_consumer,
    refused_as_a_whole,
    response_topic,
)
from quorum_node.server.broker.fetch_waiting import MAX_BYTES, Part, Waiting
from quorum_node.server.broker.hosted_replica import FetchAnswer, HostedReplica
from quorum_node.server.broker.isolation_levels import READ_COMMITTED, is_isolation_level
from quorum_node.server.broker.produce_api import EndpointTo
from quorum_node.server.broker.topic_lookup import Found, May, anything, look_up
from quorum_node.server.listener.port import InboundRequest
from quorum_node.storage.broker.read_batches import ReadBatches

_MAX_WAIT_MS = 60_000
_LARGE_BYTES = 4096
"""Of a request. With names of topics, a hundred partitions have so many."""
MOST_BATCHES = 20_000
"""In one answer. To find their ends takes up to 20 ms; the smallest batches have 70 bytes, so MAX_BYTES could have half a million."""
MAX_WAITING_OF_CONNECTION = 4
"""Further requests are answered at once. Clients and followers have one; each is looked at whenever one of its partitions moves."""
_FOLLOWERS_SERVE_SINCE = 11
"""First version in which a follower may serve a consumer (KIP-392)."""
_TOPIC_IDS_SINCE = 13
MOST_REFUSED_AT_ONCE = 1_000
"""Partitions of a request that do not exist, as of topics that were just deleted. Each costs 10 µs, and a request may have 50,000."""
_WHOLE = (0, -1)
"""Session epochs of requests that name all their partitions: the first one of a session, and one without a session."""
_Asked = tuple[FetchTopic, FetchPartition]


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
        if not is_isolation_level(body.isolation_level):
            error, version = ErrorCode.UNKNOWN_SERVER_ERROR, inbound.request.version
            inbound.reply_made(lambda: refused_as_a_whole(body, version, error))
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
        waiting = Waiting(inbound, body, parts)
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
                refusals.append(answered(body, Part(topic, each, None, error)))
            else:
                found.append((topic, each))
            yield
            is_last = number + 1 == len(asked) or asked[number + 1][0] is not topic
            if is_last and refusals:
                refused.append(response_topic(topic, refusals))
                refusals = []
        parts = [self._ask(inbound, body, topic, each, may) for topic, each in found]
        self._reply(Waiting(inbound, body, parts), refused)

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
    ) -> Part:
        found = self._look_up(inbound, topic, asked, may)
        if isinstance(found, ErrorCode):
            return Part(topic, asked, None, found)
        if found.replica is None:
            return Part(topic, asked, found, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        part = Part(topic, asked, found)
        self._step(inbound, body, part, found.replica)
        return part

    def _step(
        self, inbound: InboundRequest, body: FetchRequest, part: Part, replica: HostedReplica
    ) -> None:
        asked = part.asked
        # A negative epoch means no epoch, as for a stock broker.
        leader_epoch = max(asked.current_leader_epoch, NO_EPOCH)
        last_fetched_epoch = max(asked.last_fetched_epoch, NO_EPOCH)
        if is_consumer(body):
            answer = replica.consumer_fetched(
                asked.fetch_offset,
                leader_epoch,
                last_fetched_epoch,
                only_leader=inbound.request.version < _FOLLOWERS_SERVE_SINCE,
            )
            if body.isolation_level == READ_COMMITTED and isinstance(answer, ServeFetch):
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

    def _is_due(self, waiting: Waiting) -> bool:
        """Whether to answer now: see `Waiting.is_due`; also an empty request, or one with a wait time of 0."""
        is_waiting = waiting.body.max_wait_ms > 0 and bool(waiting.parts)
        return not is_waiting or waiting.is_due(waiting.parts)

    def _wait(self, waiting: Waiting) -> None:
        connection = waiting.inbound.connection
        if self._waiting[connection] >= MAX_WAITING_OF_CONNECTION:
            self._reply(waiting)
            return
        self._waiting[connection] += 1
        if waiting.inbound.size_bytes > _LARGE_BYTES:
            waiting.keep_what_is_used()

        def moved(part: Part) -> None:
            # Called within a step of a replica: check after the step.
            if waiting.note(part):
                self._loop.call_soon(self._look, waiting)

        seconds = min(waiting.body.max_wait_ms, _MAX_WAIT_MS) / 1000
        waiting.park(moved, self._loop.call_later(seconds, self._over, waiting))
        waiting.inbound.when_abandoned(lambda: self._forget(waiting))

    def _forget(self, waiting: Waiting) -> None:
        if waiting.timer is None:
            return
        waiting.forget()
        connection = waiting.inbound.connection
        self._waiting[connection] -= 1
        if not self._waiting[connection]:
            del self._waiting[connection]

    def _look(self, waiting: Waiting) -> None:
        """Look at what has moved alone: a request that waits for many bytes of many partitions is looked at again and again."""
        moved = waiting.take_moved()
        if waiting.timer is None:
            return
        for part in moved:
            self._refresh(waiting, part)
        if waiting.is_due(moved):
            self._over(waiting)

    def _over(self, waiting: Waiting) -> None:
        self._forget(waiting)
        for part in waiting.parts:
            self._refresh(waiting, part)
        self._reply(waiting)

    def _refresh(self, waiting: Waiting, part: Part) -> None:
        """Update the answer. For a follower of an unchanged leader the core is not stepped, because the follower has not fetched again."""
        replica, answer = part.replica, part.answer
        if replica is None or not isinstance(answer, ServeFetch):
            return
        core, epoch = replica.core, part.asked.current_leader_epoch
        same = epoch < 0 or epoch == core.leader_epoch
        if not is_consumer(waiting.body) and same and replica.is_leader:
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

    def _reply(self, waiting: Waiting, refused: Iterable[FetchResponseTopic] = ()) -> None:
        """`refused`: the answers about partitions that are not among the parts."""
        body, inbound = waiting.body, waiting.inbound
        left_bytes, left_batches = min(max(body.max_bytes, 0), MAX_BYTES), MOST_BATCHES
        is_first = True
        by_topic: dict[int, list[FetchResponsePartition]] = {}
        leaders: set[int] = set()
        for part in waiting.parts:
            read = None
            if isinstance(part.answer, ServeFetch) and part.replica is not None and left_batches:
                read = self._read(
                    part.answer, part.replica, part.asked, left_bytes, left_batches, is_first
                )
            if read is not None and part.replica is not None:
                size_bytes = len(read.data)
                self._replicas.throttles.sent(part.replica, body.fetcher_id, size_bytes)
                is_first = is_first and not size_bytes
                left_bytes = max(0, left_bytes - size_bytes)
                left_batches -= read.batch_count
            found = answered(body, part, read)
            leaders.add(found.current_leader.leader_id)
            by_topic.setdefault(id(part.topic), []).append(found)
        responses = tuple(
            response_topic(topic, by_topic[id(topic)])
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
        left_batches: int,
        is_first: bool,
    ) -> ReadBatches | None:
        """Read whole batches, as many as fit; at least one for the first partition with records in an answer."""
        limit = min(asked.partition_max_bytes, left_bytes)
        if answer.end_offset <= answer.fetch_offset or (limit <= 0 and not is_first):
            return None
        read = replica.read(answer, max(limit, 0), left_batches)
        return None if len(read.data) > limit and not is_first else read

    def _endpoints(self, leaders: set[int], listener: str) -> tuple[FetchNodeEndpoint, ...]:
        found = []
        for broker_id in sorted(leaders):
            endpoint = self._endpoint_to(broker_id, listener)
            if endpoint is not None:
                host, port, rack = endpoint
                found.append(FetchNodeEndpoint(node_id=broker_id, host=host, port=port, rack=rack))
        return tuple(found)
