"""Identifies the requests that voters send to each other, and their senders.

On a listener without authentication the sender's id is only claimed: sufficient to choose which connections are kept when there are too
many, and which are served at once for a small part of the time (`claimed_voters`). Knows messages, not connections.
"""

from collections.abc import Callable
from typing import Any

from quorum_node.protocol.elections import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    VoteRequest,
)
from quorum_node.protocol.fetch import FetchRequest
from quorum_node.protocol.fetch_snapshot import FetchSnapshotRequest
from quorum_node.schema.schema import Message


def voter_of(body: Message | None) -> int | None:
    """Node id of the replica that sends this request; None if the request is not one between voters."""
    sender = _SENDERS.get(type(body))
    return None if sender is None else sender(body)


def _first(name: str) -> Callable[[Any], int | None]:
    """The sender in the first partition of the request; it is the same in all of them."""

    def sender(body: Any) -> int | None:
        for topic in body.topics:
            for partition in topic.partitions:
                found: int = getattr(partition, name)
                return found
        return None

    return sender


_SENDERS: dict[type, Callable[[Any], int | None]] = {
    VoteRequest: _first("replica_id"),
    BeginQuorumEpochRequest: _first("leader_id"),
    EndQuorumEpochRequest: _first("leader_id"),
    FetchRequest: lambda body: int(body.fetcher_id),
    FetchSnapshotRequest: lambda body: int(body.replica_id),
}
