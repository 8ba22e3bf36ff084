"""Splits a Kafka request over several partitions: each replica is asked, and one answer is sent.

A partition that this node does not host gets an error, and does not affect the others. A replica may park a fetch. The first partition
with an answer ends the wait of all at the end of that turn of the loop, and the others answer with the data that they have (K595-31):
data must not wait for an idle partition, and records that several partitions append in this turn are sent together.

Fetches of one replica may wait in different requests, because their partitions were busy at different times. When one of them ends
without data, all of them end: the replica then fetches all partitions in one request again.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import FetchRequest
from quorum_node.raft import messages as raft
from quorum_node.schema.schema import Message
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.wire.fetch import without_unused_fields
from quorum_node.server.wire.partitioned_rpc import Now, RaftRpc
from quorum_node.server.wire.partitions import Answer, PartitionKey, Split
from quorum_node.server.wire.rpcs import rpc_for

_NOBODY = -1
_LARGE_BYTES = 4096
"""A Fetch of a member has a few hundred bytes for each partition."""
_LONG_ENOUGH = 0.5
"""Part of its wait after which a fetch may be ended because of another one."""


class RequestedReplica(Protocol):
    """The methods of a hosted replica that are used here."""

    def request(self, request: raft.Request, done: Callable[[raft.Response], None]) -> int:
        """Pass a request to the core. `done` is called once, unless the request is abandoned."""

    def hurry(self, request_id: int) -> None:
        """Answer a parked fetch now, with the data that there is; no effect if it has been answered or can't be."""

    def abandon(self, request_id: int) -> None:
        """The answer is not needed any more."""


class PartitionRequests:
    """All requests of this process that its replicas answer."""

    def __init__(self, replicas: Mapping[PartitionKey, RequestedReplica], now: Now) -> None:
        self.replicas = replicas
        self.now = now
        self.loop = asyncio.get_running_loop()
        self._alone = len(replicas) == 1
        self._waiting: dict[int, set[_SplitRequest]] = {}
        """Parked fetches by the id of the replica that sent them."""

    def ask(self, inbound: InboundRequest, body: Message) -> None:
        """Ask the replica of every partition in the request; reply when all have answered."""
        rpc = rpc_for(body)
        parts = rpc.split(body)
        if inbound.size_bytes > _LARGE_BYTES and isinstance(body, FetchRequest):
            body = without_unused_fields(body)
            inbound.keep_only(body)
        if self._alone and len(parts) == 1:
            self._ask_one(inbound, rpc, body, *parts[0])
        else:
            _SplitRequest(self, inbound, rpc, body).ask(parts)

    def _ask_one(
        self,
        inbound: InboundRequest,
        rpc: RaftRpc,
        body: Message,
        key: PartitionKey,
        request: raft.Request,
    ) -> None:
        """The same for the only partition: every commit takes this path."""
        replica = self.replicas.get(key)
        if replica is None:
            inbound.reply(rpc.join(body, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,), self.now))
            return
        answered = False

        def done(response: raft.Response) -> None:
            nonlocal answered
            answered = True
            inbound.reply(rpc.join(body, (response,), self.now))

        request_id = replica.request(request, done)
        if not answered:
            inbound.when_abandoned(partial(replica.abandon, request_id))

    def parked(self, request: "_SplitRequest") -> None:
        """A fetch is parked."""
        if not self._alone:
            self._waiting.setdefault(request.fetcher_id, set()).add(request)

    def ended(self, request: "_SplitRequest", *, without_data: bool) -> None:
        """A fetch is not parked any more."""
        if self._alone:
            return
        others = self._waiting.get(request.fetcher_id, set())
        others.discard(request)
        if not others:
            self._waiting.pop(request.fetcher_id, None)
        elif without_data:
            now = self.loop.time()
            for other in [each for each in others if each.good_until <= now]:
                other.hurry()


class _SplitRequest:
    __slots__ = (
        "_answers", "_asked", "_asking", "_body", "_hurried", "_inbound", "_missing", "_node",
        "_rpc", "fetcher_id", "good_until",
    )  # fmt: skip

    def __init__(
        self, node: PartitionRequests, inbound: InboundRequest, rpc: RaftRpc, body: Message
    ) -> None:
        self._node = node
        self._rpc = rpc
        self._inbound = inbound
        self._body = body
        self._answers: list[Answer | None] = []
        self._asked: dict[int, tuple[RequestedReplica, int]] = {}
        self._missing = 0
        self._asking = True
        self._hurried = False
        self.fetcher_id = body.fetcher_id if isinstance(body, FetchRequest) else _NOBODY
        self.good_until = 0.0
        """Loop time in seconds until which the wait must not be ended because of another fetch."""

    def ask(self, parts: Split) -> None:
        """Ask all replicas; some may answer at once."""
        self._answers = [None] * len(parts)
        self._missing = len(parts)
        seen: set[PartitionKey] = set()
        for index, (key, request) in enumerate(parts):
            replica = self._node.replicas.get(key)
            if replica is None:
                self._answered(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            if key in seen:
                # A thousand copies of the same fetch would need a thousand answers in memory.
                self._answered(index, ErrorCode.INVALID_REQUEST)
                continue
            seen.add(key)
            request_id = replica.request(request, self._done(index))
            if self._answers[index] is None:
                self._asked[index] = replica, request_id
        self._asking = False
        if not self._missing:
            self._reply()
            return
        self._inbound.when_abandoned(self._abandon)
        if isinstance(self._body, FetchRequest) and self.fetcher_id != _NOBODY:
            wait_seconds = self._body.max_wait_ms / 1000
            self.good_until = self._node.loop.time() + _LONG_ENOUGH * wait_seconds
            self._node.parked(self)
        if self._missing < len(parts):
            self.hurry()

    def hurry(self) -> None:
        """End the wait of every partition that has not answered."""
        for replica, request_id in list(self._asked.values()):
            replica.hurry(request_id)

    def _done(self, index: int) -> Callable[[raft.Response], None]:
        def done(response: raft.Response) -> None:
            self._answered(index, response)

        return done

    def _answered(self, index: int, answer: Answer) -> None:
        self._answers[index] = answer
        self._missing -= 1
        if self._asking:
            return
        del self._asked[index]
        if not self._missing:
            self._reply()
        elif not self._hurried:
            self._hurried = True
            self._node.loop.call_soon(self.hurry)

    def _reply(self) -> None:
        answers = [answer for answer in self._answers if answer is not None]
        self._inbound.reply(self._rpc.join(self._body, answers, self._node.now))
        if self.good_until:
            self._node.ended(self, without_data=not any(map(_has_data, answers)))

    def _abandon(self) -> None:
        if self.good_until:
            self._node.ended(self, without_data=False)
        for replica, request_id in list(self._asked.values()):
            replica.abandon(request_id)


def _has_data(answer: Answer) -> bool:
    return isinstance(answer, raft.FetchResponse) and bool(answer.records)
