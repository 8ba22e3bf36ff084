"""One Kafka request that concerns several partitions: each replica is asked, one answer leaves.

A partition that this node does not host gets its error and hurts no other. A replica may keep a
fetch for later; the first partition that is answered ends the wait of all, and the others say what
they have (K595-31): an answer must not wait for a partition where nothing happens.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.schema import Message
from quorum_node.raft import messages as raft
from quorum_node.server.listener import InboundRequest
from quorum_node.server.wire.describe import Now
from quorum_node.server.wire.inbound import join, split
from quorum_node.server.wire.partitions import Answer, PartitionKey


class AskedReplica(Protocol):
    """The part of a hosted replica that requests need."""

    def request(self, request: raft.Request, done: Callable[[raft.Response], None]) -> int:
        """Hand a request to the core; `done` is called once, unless it is abandoned."""

    def hurry(self, request_id: int) -> None:
        """Answer now, with what there is; nothing happens if it is answered or can't be."""

    def abandon(self, request_id: int) -> None:
        """Nobody waits for the answer any more."""


def ask_replicas(
    inbound: InboundRequest,
    body: Message,
    replicas: Mapping[PartitionKey, AskedReplica],
    now: Callable[[], Now],
) -> None:
    """Ask the replica of every partition in the request; reply when all have answered."""
    _SplitRequest(inbound, body, now).ask(replicas)


class _SplitRequest:
    __slots__ = (
        "_answers",
        "_asked",
        "_asking",
        "_body",
        "_hurried",
        "_inbound",
        "_missing",
        "_now",
    )

    def __init__(self, inbound: InboundRequest, body: Message, now: Callable[[], Now]) -> None:
        self._inbound = inbound
        self._body = body
        self._now = now
        self._answers: list[Answer | None] = []
        self._asked: dict[int, tuple[AskedReplica, int]] = {}
        self._missing = 0
        self._asking = True
        self._hurried = False

    def ask(self, replicas: Mapping[PartitionKey, AskedReplica]) -> None:
        """Ask all; some may answer at once."""
        parts = split(self._body)
        self._answers = [None] * len(parts)
        self._missing = len(parts)
        seen: set[PartitionKey] = set()
        for index, (key, request) in enumerate(parts):
            replica = replicas.get(key)
            if replica is None:
                self._answered(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            if key in seen:
                # A thousand times the same fetch would be a thousand answers to hold in memory.
                self._answered(index, ErrorCode.INVALID_REQUEST)
                continue
            seen.add(key)
            request_id = replica.request(request, self._done(index))
            if self._answers[index] is None:
                self._asked[index] = replica, request_id
        self._asking = False
        if self._missing:
            self._inbound.on_abandoned = self._abandon
            if self._missing < len(parts):
                self._hurry()
        else:
            self._reply()

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
        if self._missing:
            self._hurry()
        else:
            self._reply()

    def _hurry(self) -> None:
        if not self._hurried:
            self._hurried = True
            for replica, request_id in list(self._asked.values()):
                replica.hurry(request_id)

    def _reply(self) -> None:
        answers = [answer for answer in self._answers if answer is not None]
        self._inbound.reply(join(self._body, answers, self._now))

    def _abandon(self) -> None:
        for replica, request_id in list(self._asked.values()):
            replica.abandon(request_id)
