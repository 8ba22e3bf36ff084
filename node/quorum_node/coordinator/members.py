"""A member of a classic group. PURE.

Owns what a member brought with it, and which of its requests waits. Must not know what the group does with it.
"""

from math import inf
from typing import NamedTuple

NO_REQUEST = None


class Protocol(NamedTuple):
    """A way of assigning that a member supports; `metadata` is its subscription."""

    name: str
    metadata: bytes


class Member:
    """`due_ms`: when its session ends, on the monotonic clock; inf while a request of it waits.

    `joining` and `syncing`: ids of requests that wait for an answer.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "due_ms",
        "instance_id",
        "is_new",
        "joining",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        protocols: tuple[Protocol, ...],
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.protocols = protocols
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.assignment = b""
        self.is_new = False
        self.joining: int | None = NO_REQUEST
        self.syncing: int | None = NO_REQUEST
        self.due_ms = inf

    @property
    def size_bytes(self) -> int:
        """Of its subscriptions."""
        return sum(len(each.metadata) for each in self.protocols)

    @property
    def protocol_names(self) -> tuple[str, ...]:
        """The one it likes best first."""
        return tuple(each.name for each in self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """Its subscription for a protocol; empty where it does not support that."""
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")

    def lives(self, now_ms: float) -> None:
        """It was heard from: its session begins anew."""
        self.due_ms = now_ms + self.session_timeout_ms
