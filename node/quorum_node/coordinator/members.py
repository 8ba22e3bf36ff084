"""A member of a classic group. PURE.

Owns the member's data and its waiting requests. Must not know the group.
"""

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

NO_REQUEST = None


class Protocol(NamedTuple):
    """An assignment protocol that a member supports; `metadata` is its subscription."""

    name: str
    metadata: bytes


_BYTES_OF_A_NAME = 16
"""Added to the length of each name: even empty names need memory, and time whenever a member joins."""


def metadata_bytes(protocols: Iterable[Protocol]) -> int:
    """Size of the subscriptions."""
    return sum(len(each.metadata) for each in protocols)


def names_bytes(protocols: Iterable[Protocol]) -> int:
    """Size of the names."""
    return sum(len(each.name) + _BYTES_OF_A_NAME for each in protocols)


class Member:
    """`due_ms`: end of its session, on the monotonic clock; inf while one of its requests waits.

    `joining` and `syncing`: ids of waiting requests.
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
    def protocol_names(self) -> tuple[str, ...]:
        """Names of its protocols in order of preference."""
        return tuple(each.name for each in self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """Its subscription for a protocol; empty if it does not support the protocol."""
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")

    def lives(self, now_ms: float) -> None:
        """The member sent a request: restart its session."""
        self.due_ms = now_ms + self.session_timeout_ms
