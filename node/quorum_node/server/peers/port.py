"""The port of this package: the connections to other nodes, as other packages see them."""

from collections.abc import Callable
from typing import Protocol

from quorum_node.protocol.api import Api
from quorum_node.raft.events import FailureReason
from quorum_node.raft.messages import InboundResponse, OutboundRequest
from quorum_node.records.identity import Endpoint
from quorum_node.schema.schema import Message


class PeerListener(Protocol):
    """Informed of how a send ended."""

    def response_received(self, correlation: int, response: InboundResponse) -> None:
        """The peer answered."""

    def request_failed(self, correlation: int, reason: FailureReason) -> None:
        """There will be no answer."""


class Peers(Protocol):
    """All connections of this node to other replicas."""

    def attach(self, partition: int, listener: PeerListener) -> None:
        """Register the replica of a partition for the outcomes of its sends."""

    def send(
        self,
        partition: int,
        correlation: int,
        destination: Endpoint,
        request: OutboundRequest,
        timeout_ms: float,
    ) -> None:
        """Send a request. Exactly one callback with this correlation follows, never before this returns."""

    def ask(
        self,
        destination: Endpoint,
        api: Api,
        body: Message,
        done: Callable[[Message | FailureReason], None],
        *,
        timeout_ms: float,
    ) -> None:
        """Send a request to the node at an endpoint, not to a replica. `done` is called once, never before this returns."""

    def warm(self, destination: Endpoint) -> None:
        """Connect now unless connections exist, so that no handshake delays an election."""

    def connected_addresses(self) -> set[tuple[str, int]]:
        """Addresses with a connection that is ready."""
