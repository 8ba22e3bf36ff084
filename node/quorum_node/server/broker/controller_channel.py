"""Sends requests of this broker to the active controller.

Owns finding the active controller: the leader of the metadata log according to this node's replica. Does not interpret or retry requests:
NOT_CONTROLLER, or a failure without an answer, is passed to the caller.
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
    """The local replica of the metadata log."""

    def leader(self) -> CurrentLeader:
        """The current leader according to this replica."""


class ControllerChannel:
    """The channel to the active controller; allows any number of concurrent requests."""

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
        """Send a request. `answered` is called once, never before this returns."""
        endpoint = self._replica.leader().endpoint
        if endpoint is None:
            self._call_soon(answered, FailureReason.REFUSED)
            return
        self._peers.ask(endpoint, api, body, answered, timeout_ms=timeout_ms or self._timeout_ms)
