"""What this broker asks the active controller, wherever that is.

Owns finding it: the leader of the metadata log, as this node's replica knows it. Must not know what is asked, nor when it is
asked again: an answer of NOT_CONTROLLER, or none, is told to whoever asked.
"""

from collections.abc import Callable
from typing import Protocol

from quorum_node.protocol.api import Api
from quorum_node.raft.events import FailureReason
from quorum_node.raft.messages import CurrentLeader
from quorum_node.schema.schema import Message
from quorum_node.server.peers.port import Peers

Answered = Callable[[Message | FailureReason], None]


class LeaderKnown(Protocol):
    """The replica of the metadata log."""

    def leader(self) -> CurrentLeader:
        """Whom this replica knows as the leader."""


class ControllerChannel:
    """Any number of questions at once."""

    def __init__(
        self,
        replica: LeaderKnown,
        peers: Peers,
        call_soon: Callable[..., object],
        timeout_ms: float,
    ) -> None:
        self._replica = replica
        self._peers = peers
        self._call_soon = call_soon
        self._timeout_ms = timeout_ms

    def ask(
        self, api: Api, body: Message, answered: Answered, *, timeout_ms: float | None = None
    ) -> None:
        """`answered` is called once, never from within."""
        endpoint = self._replica.leader().endpoint
        if endpoint is None:
            self._call_soon(answered, FailureReason.REFUSED)
            return
        self._peers.ask(endpoint, api, body, answered, timeout_ms=timeout_ms or self._timeout_ms)
