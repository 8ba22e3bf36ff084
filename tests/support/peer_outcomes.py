"""A vote request to a peer, its answer, and the outcomes of sends."""

import asyncio

from quorum_node.protocol.apis import VOTE
from quorum_node.protocol.elections import VoteRequest as WireVoteRequest
from quorum_node.protocol.frames import Request, encode_response
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import FailureReason
from quorum_node.raft.messages import CurrentLeader, VoteRequest, VoteResponse
from quorum_node.records.identity import ReplicaKey
from quorum_node.server.wire.instant import Instant
from quorum_node.server.wire.vote import VOTE as VOTE_RPC

ME = ReplicaKey(1)
VOTE_REQUEST = VoteRequest("c", ME, 5, 4, 30, ReplicaKey(2), True)
ANSWER = VoteResponse(RaftError.NONE, CurrentLeader(-1, 5), True)


class Outcomes:
    """Collects how sends ended."""

    def __init__(self) -> None:
        self.ended: dict[int, object] = {}
        self._changed = asyncio.Event()

    def response_received(self, correlation: int, response: object) -> None:
        self._end(correlation, response)

    def request_failed(self, correlation: int, reason: FailureReason) -> None:
        self._end(correlation, reason)

    def _end(self, correlation: int, outcome: object) -> None:
        assert correlation not in self.ended, "a send ends once"
        self.ended[correlation] = outcome
        self._changed.set()

    async def of(self, correlation: int) -> object:
        async with asyncio.timeout(10):
            while correlation not in self.ended:
                self._changed.clear()
                await self._changed.wait()
        return self.ended[correlation]


async def grant(request: Request, writer: asyncio.StreamWriter) -> None:
    assert isinstance(request.body, WireVoteRequest)
    body = VOTE_RPC.join(request.body, [ANSWER], lambda: Instant(0, 0))
    writer.write(encode_response(VOTE, request.version, request.correlation_id, body))
