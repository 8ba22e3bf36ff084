"""What others see of the connections to other nodes: the port of this room."""

from collections.abc import Callable
from typing import Protocol

from quorum_node.protocol.api import Api
from quorum_node.raft.events import FailureReason
from quorum_node.raft.messages import InboundResponse, OutboundRequest
from quorum_node.records.identity import Endpoint
from quorum_node.schema.schema import Message


class PeerListener(Protocol):
    """Who is told how a send ended."""

    def response_received(self, correlation: int, response: InboundResponse) -> None:
        """The peer answered."""

    def request_failed(self, correlation: int, reason: FailureReason) -> None:
        """There will be no answer."""


class Peers(Protocol):
    """All connections of this node to other replicas."""

    def attach(self, partition: int, listener: PeerListener) -> None:
        """The replica of a partition wants to hear how its sends end."""

    def send(
        self,
        partition: int,
        correlation: int,
        destination: Endpoint,
        request: OutboundRequest,
        timeout_ms: float,
    ) -> None:
        """Send; exactly one callback with this correlation follows, never from within."""

    def ask(
        self,
        destination: Endpoint,
        api: Api,
        body: Message,
        done: Callable[[Message | FailureReason], None],
        *,
        timeout_ms: float,
    ) -> None:
        """Ask the node there, not a replica; `done` is called once, never from within."""

    def warm(self, destination: Endpoint) -> None:
        """Connect now unless there are connections, so that an election needs no handshake."""

    def connected_addresses(self) -> set[tuple[str, int]]:
        """Where a connection is ready for use."""
