"""The open connections of one listener: which of them is closed when there are too many, or when one is idle for too long.

A new connection is always accepted. If a limit is exceeded, the connection that has been idle for the longest time is closed: of all
(`max.connections`), of the same address (`max.connections.per.ip`) or of the same principal (`quorum.principal.max.connections`).
Connections without a complete request are closed first, connections with an authenticated client last. Kafka does so for the listener
between brokers; elsewhere it makes new connections wait or refuses them, so that a flood of idle connections could lock voters out.
Connections of voters are never closed for others. Must not know the protocol.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import Protocol

from quorum_node.configuration.limits import ConnectionLimits
from quorum_node.server.listener.large_reads import LARGE_BYTES

MAX_PER_VOTER = 24
"""Protected connections of one voter id: more than a voter ever has, so that a false id protects only a few."""
_MAX_PROTECTED_SHARE = 0.5


class Connection(Protocol):
    """What is used of a connection here."""

    address: str
    """IP address of the client."""
    standing: int
    """0: no complete request yet; 1: at least one; 2: its client is authenticated. Connections with less are closed first."""
    active_at: float
    """Time in seconds when it last received or sent something, or was opened."""
    unfinished_since: float | None
    """Time in seconds when its incomplete request began to arrive; None without one."""
    unfinished_bytes: int
    """Bytes of the incomplete request that have arrived."""

    def drop(self, why: str) -> None:
        """Close at once. The book's `lost` is called from there or later."""


class ConnectionBook:
    """`clock`: in seconds. `count`: called with the reason whenever a connection is closed here."""

    def __init__(
        self,
        limits: ConnectionLimits,
        clock: Callable[[], float],
        count: Callable[[str], None] = lambda why: None,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._count = count
        self._ordinary: OrderedDict[Connection, None] = OrderedDict()
        """In the order in which they were opened."""
        self._by_address: dict[str, set[Connection]] = {}
        self._principal_of: dict[Connection, str] = {}
        self._by_principal: dict[str, set[Connection]] = {}
        self._unfinished_of: Counter[str] = Counter()
        """Bytes of incomplete requests, by principal."""
        self._voters: dict[int, list[Connection]] = {}
        self._voter_of: dict[Connection, int] = {}
        self._unfinished: OrderedDict[Connection, int] = OrderedDict()
        """Bytes of each incomplete request, the one that began first at the front."""
        self._unfinished_bytes = 0

    def __len__(self) -> int:
        return len(self._ordinary) + len(self._voter_of)

    def __iter__(self) -> Iterator[Connection]:
        return iter([*self._ordinary, *self._voter_of])

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of incomplete requests, of all connections."""
        return self._unfinished_bytes

    def opened(self, connection: Connection) -> None:
        """A connection was opened; another one may be closed for it."""
        same = self._by_address.setdefault(connection.address, set())
        same.add(connection)
        self._ordinary[connection] = None
        if len(same) > self._limits.allowed_from(connection.address):
            self._close_idlest(same, connection, "max.connections.per.ip")
        elif len(self) > self._limits.max_connections:
            self._close_idlest(self._ordinary, connection, "max.connections")

    def identified(self, connection: Connection, principal: str) -> None:
        """Its client is authenticated; another connection of the same principal may be closed for it.

        Called again when a client with a certificate logs in as a user: from then on it counts for the user only.
        """
        self._forget_principal(connection)
        self._principal_of[connection] = principal
        same = self._by_principal.setdefault(principal, set())
        same.add(connection)
        self._unfinished_of[principal] += self._unfinished.get(connection, 0)
        ordinary = sum(each in self._ordinary for each in same)
        if ordinary > self._limits.principal_connections:
            self._close_idlest(same, connection, "quorum.principal.max.connections")

    def lost(self, connection: Connection) -> None:
        """A connection was closed."""
        self._ordinary.pop(connection, None)
        self.has_unfinished(connection, 0)
        self._forget_principal(connection)
        same = self._by_address.get(connection.address)
        if same is not None:
            same.discard(connection)
            if not same:
                del self._by_address[connection.address]
        voter = self._voter_of.pop(connection, None)
        if voter is not None:
            self._voters[voter].remove(connection)

    def is_voters(self, connection: Connection) -> bool:
        """Whether the connection is protected as a voter's."""
        return connection in self._voter_of

    def belongs_to_voter(self, connection: Connection, voter_id: int) -> bool:
        """Protect a connection on which a voter of the latest set sends requests, to the listener's knowledge.

        If too many connections claim the same voter id, the least recently used one loses its protection.
        """
        if connection not in self._ordinary:
            return connection in self._voter_of
        if len(self._voter_of) >= _MAX_PROTECTED_SHARE * self._limits.max_connections:
            return False
        own = self._voters.setdefault(voter_id, [])
        if len(own) >= MAX_PER_VOTER:
            idlest = min(own, key=_active_at)
            own.remove(idlest)
            del self._voter_of[idlest]
            self._ordinary[idlest] = None
        del self._ordinary[connection]
        own.append(connection)
        self._voter_of[connection] = voter_id
        return True

    def has_unfinished(self, connection: Connection, size_bytes: int) -> None:
        """This number of bytes of an incomplete request has arrived; 0: there is no incomplete request.

        Beyond `queued.max.request.bytes`, the connection whose large request began first is closed.
        """
        known = self._unfinished.get(connection, 0)
        self._unfinished_bytes += size_bytes - known
        if size_bytes:
            self._unfinished[connection] = size_bytes
        elif known:
            del self._unfinished[connection]
        principal = self._principal_of.get(connection)
        if principal is not None:
            self._unfinished_of[principal] += size_bytes - known
            while self._unfinished_of[principal] > self._limits.principal_queued_bytes:
                self._close(
                    self._first_large(principal), "quorum.principal.queued.max.request.bytes"
                )
        while self._unfinished_bytes > self._limits.queued_bytes:
            self._close(self._first_large(None), "queued.max.request.bytes")

    def sweep(self) -> None:
        """Close connections that have been idle, or incomplete, for too long. To be called once a second."""
        now = self._clock()
        idle_since = now - self._limits.max_idle_ms / 1000
        unfinished_since = now - self._limits.receive_timeout_ms / 1000
        for connection in list(self):
            began = connection.unfinished_since
            if began is not None and began < unfinished_since:
                self._close(connection, "quorum.request.receive.timeout.ms")
            elif connection.active_at < idle_since and connection in self._ordinary:
                self._close(connection, "connections.max.idle.ms")

    def _close_idlest(
        self, among: "set[Connection] | OrderedDict[Connection, None]", newest: Connection, why: str
    ) -> None:
        """Close the idlest connection that is not protected; the newest one if there are no others."""
        idlest = min(
            (each for each in among if each in self._ordinary and each is not newest),
            key=_standing_and_use,
            default=newest,
        )
        self._close(idlest, why)

    def _close(self, connection: Connection, why: str) -> None:
        self._count(why)
        self.lost(connection)
        connection.drop(why)

    def _first_large(self, principal: str | None) -> Connection:
        """The connection whose large request began first, of a principal or of all; if none is large, the first of any size."""
        among = [
            each
            for each in self._unfinished
            if principal is None or self._principal_of.get(each) == principal
        ]
        large = (each for each in among if self._unfinished[each] >= LARGE_BYTES)
        return next(large, among[0])

    def _forget_principal(self, connection: Connection) -> None:
        principal = self._principal_of.pop(connection, None)
        if principal is None:
            return
        same = self._by_principal[principal]
        same.discard(connection)
        self._unfinished_of[principal] -= self._unfinished.get(connection, 0)
        if not same:
            del self._by_principal[principal], self._unfinished_of[principal]


def _active_at(connection: Connection) -> float:
    return connection.active_at


def _standing_and_use(connection: Connection) -> tuple[int, float]:
    return connection.standing, connection.active_at
