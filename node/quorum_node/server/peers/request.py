"""A request on a connection to a peer, and its outcome.

Owns the two kinds: requests of replicas (`ReplicaRequest`, for one or more partitions), and requests of this node to the active
controller (`NodeRequest`). Must not know connections: `connection.py` sends them.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar

from quorum_node.protocol.api import Api
from quorum_node.raft.events import FailureReason
from quorum_node.raft.messages import InboundResponse, OutboundRequest
from quorum_node.schema.schema import Message
from quorum_node.server.wire.rpcs import from_wire, rpc_of

Address = tuple[str, int]
T = TypeVar("T")


class PeerRequest(Generic[T]):
    """A request to `address`, whose answer is decoded as a T."""

    __slots__ = ("address", "api", "sent_at", "timeout_ms")

    def __init__(self, api: Api, timeout_ms: float, address: Address) -> None:
        self.api = api
        self.address = address
        self.sent_at = perf_counter()
        self.timeout_ms = timeout_ms

    def message(self, version: int) -> Message | None:
        """The message in this version of the API; None if the version can't express the request."""
        raise NotImplementedError

    def read(self, body: Message) -> T:
        """The answer. Raises MalformedMessage if it is not an answer to this request."""
        raise NotImplementedError

    def end(self, outcome: T | FailureReason) -> None:
        """Called once: with the answer, or with the reason why there is none."""
        raise NotImplementedError


AnyRequest = PeerRequest[Any]


class PartRequest(NamedTuple):
    """The request of one partition; the correlation is the partition's own."""

    partition: int
    correlation: int
    request: OutboundRequest


Outcomes = Sequence[InboundResponse]
"""One outcome for each part."""


class ReplicaRequest(PeerRequest[Outcomes]):
    """A request of one or several partitions to the same peer; each gets its part of the answer."""

    __slots__ = ("_ended", "_rpc", "parts")

    def __init__(
        self,
        parts: Sequence[PartRequest],
        timeout_ms: float,
        address: Address,
        ended: Callable[["ReplicaRequest", Outcomes | FailureReason], None],
    ) -> None:
        self._rpc = rpc_of(parts[0].request)
        super().__init__(self._rpc.api, timeout_ms, address)
        self.parts = parts
        self._ended = ended

    def message(self, version: int) -> Message | None:
        """See PeerRequest."""
        if not self._rpc.can_carry(self.parts[0].request, version):
            return None
        parts = [(part.partition, part.request) for part in self.parts]
        return self._rpc.to_wire(parts, version)

    def read(self, body: Message) -> Outcomes:
        """See PeerRequest."""
        return from_wire(body, [part.partition for part in self.parts])

    def end(self, outcome: Outcomes | FailureReason) -> None:
        """See PeerRequest."""
        self._ended(self, outcome)


class NodeRequest(PeerRequest[Message]):
    """A request of this node to the active controller's node."""

    __slots__ = ("_body", "_ended")

    def __init__(
        self,
        api: Api,
        body: Message,
        timeout_ms: float,
        address: Address,
        ended: Callable[["NodeRequest", Message | FailureReason], None],
    ) -> None:
        super().__init__(api, timeout_ms, address)
        self._body = body
        self._ended = ended

    def message(self, version: int) -> Message:
        """See PeerRequest."""
        return self._body

    def read(self, body: Message) -> Message:
        """See PeerRequest."""
        return body

    def end(self, outcome: Message | FailureReason) -> None:
        """See PeerRequest."""
        self._ended(self, outcome)
