"""Listeners of Kafka's protocol: any number, each with its own name and settings.

Owns the sockets and their connections. The cost of a connection is bounded: see `connection_book` for connections and bytes, `fair_turns`
and `large_reads` for time, which all listeners share. Connections are in `kafka_connection`.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from types import MappingProxyType

from quorum_node.configuration.listener_config import ListenerConfig, SaslConfig
from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import APIS
from quorum_node.protocol.frames import Request, decode_request
from quorum_node.schema.primitives import Buffer
from quorum_node.schema.schema import MalformedMessage
from quorum_node.security.caller import Caller, is_member
from quorum_node.server.listener.acceptor import Acceptor
from quorum_node.server.listener.claimed_voters import ClaimedVoters
from quorum_node.server.listener.connection_book import ConnectionBook
from quorum_node.server.listener.connection_limits import MAX_FRAMES_PER_TURN
from quorum_node.server.listener.fair_turns import FairTurns
from quorum_node.server.listener.handshakes import Handshakes
from quorum_node.server.listener.kafka_connection import KafkaConnection
from quorum_node.server.listener.large_messages import LargeMessages
from quorum_node.server.listener.large_reads import LargeReads
from quorum_node.server.listener.logins import Logins, StoredCredentials
from quorum_node.server.listener.loop_work import LoopWork
from quorum_node.server.listener.port import Handler
from quorum_node.server.listener.port_authentication import ClearText, PortAuthentication
from quorum_node.server.listener.principal_shares import PrincipalShares, Share
from quorum_node.server.listener.refused_address import refused_address
from quorum_node.server.listener.revalidation import Revalidation
from quorum_node.server.listener.voter_requests import voter_of
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.observing.refused_peers import RefusedPeers
from quorum_node.server.observing.request_times import RequestTimes
from quorum_node.server.transport.sockets import bind

MAX_UNSENT_BYTES = 128 << 20
"""In bytes: unread answers of all connections of a listener; beyond it the connection with the most is closed."""
_SWEEP_SECONDS = 1.0


class LoopShares:
    """The scheduling of all connections of all listeners. Created inside the loop. `work`: load, including that of the admin port."""

    def __init__(self, turns: FairTurns | None = None, work: LoopWork | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.work = work or LoopWork()
        self.turns = turns or FairTurns(loop)
        self.claimed = ClaimedVoters(loop)
        self.large_reads = LargeReads(loop)
        self.large_messages = LargeMessages(loop)


class KafkaListener:
    """One listening socket, its connections and its limits.

    `voter_ids`: ids of the latest voters, whose connections are not closed in favour of others.
    """

    def __init__(
        self,
        settings: ListenerConfig,
        handler: Handler,
        metrics: Metrics,
        on_malformed: Callable[[str, str, str], None],
        voter_ids: Callable[[], Collection[int]] = tuple,
        shares: LoopShares | None = None,
        authentication: PortAuthentication | None = None,
        stored: StoredCredentials | None = None,
        apis: Mapping[int, Api] = APIS,
    ) -> None:
        self.settings = settings
        self.decode: Callable[[Buffer], Request] = (
            decode_request if apis is APIS else partial(decode_request, apis=apis)
        )
        self._reports = RefusedPeers()
        self.authentication = authentication or self._clear_text()
        self._label = settings.name.lower()
        self.handler = handler
        self._metrics = metrics
        self.times = RequestTimes(metrics)
        self.max_request_bytes = settings.max_request_bytes
        self._on_malformed = on_malformed
        self.connections: set[KafkaConnection] = set()
        self.loop = asyncio.get_running_loop()
        shares = shares or LoopShares()
        self.turns, self.large_reads = shares.turns, shares.large_reads
        self.claimed = shares.claimed
        self.large_messages = shares.large_messages
        self.book = ConnectionBook(settings.limits, perf_counter, self._count_closed)
        limits = settings.limits
        self._principals = PrincipalShares(
            self.loop, limits.principal_requests, limits.principal_percentage, shares.work
        )
        self._revalidation = Revalidation(self.loop, self.authentication, lambda: self.connections)
        self._voter_ids = voter_ids
        self.logins = None if settings.sasl is None else self._logins(settings.sasl, stored)
        self._acceptor: Acceptor | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._closing = False
        self._all_gone = asyncio.Event()

    def _clear_text(self) -> ClearText:
        """Where clients log in without TLS, logins begin at the rate of handshakes, as those cost as much."""
        sasl, name = self.settings.sasl, self.settings.name
        if sasl is None:
            return ClearText(name)
        return ClearText(
            name,
            handshakes_max=sasl.logins_max,
            handshakes_rate=sasl.logins_rate,
            report=self._gave_way,
        )

    def _gave_way(self, host: str, error: BaseException) -> None:
        self._count_closed("login")
        self._report_refused(host, str(error))

    def _report_refused(self, host: str, why: str) -> None:
        self._reports.client_refused(self.settings.name, host, why)

    def _logins(self, sasl: SaslConfig, stored: StoredCredentials | None) -> Logins:
        assert stored is not None, "a listener with SASL needs credentials"
        name = self.settings.name
        return Logins(name, sasl, stored, self.handler, self._report_refused, self._count_closed)

    async def start(self) -> None:
        """Bind and listen. Raises OSError."""
        address = self.settings.address

        def make() -> KafkaConnection:
            return KafkaConnection(self)

        self._acceptor = Acceptor(
            bind(address.host, address.port),
            make,
            self.settings.limits.creation_rate,
            lambda error: self._count_closed("accept"),
            Handshakes(self.authentication, make) if self.authentication.handshakes_max else None,
        )
        self._acceptor.start()
        self._sweep()

    async def close(self, timeout_seconds: float) -> None:
        """Stop accepting connections. Answers that are ready may be sent until the timeout."""
        if self._acceptor is not None:
            self._acceptor.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._closing = True
        for connection in list(self.connections):
            connection.close()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), timeout_seconds)

    def opened(self, connection: KafkaConnection) -> None:
        """A connection was opened. One that was being accepted when the listener was closed is closed at once."""
        self.connections.add(connection)
        self.book.opened(connection)
        if self._closing:
            connection.close()

    def connection_gone(self, connection: KafkaConnection) -> None:
        """A connection was closed."""
        self.book.lost(connection)
        if self.logins is not None:
            self.logins.gone(connection)
        self.connections.discard(connection)
        if self._closing and not self.connections:
            self._all_gone.set()

    def share_of(self, caller: Caller) -> Share:
        """The usage that all connections of the principal share."""
        return self._principals.of(caller)

    def is_voters(self, connection: KafkaConnection, request: Request) -> bool:
        """Whether a voter sends this request: by its certificate, or by its own claim where certificates are not bound to ids."""
        sender = voter_of(request.body)
        if sender is None or self.logins is not None or sender not in self._voter_ids():
            return False
        if self.authentication.binds_ids and not is_member(connection.caller, sender):
            return False
        return self.book.belongs_to_voter(connection, sender)

    @property
    def frames_per_turn(self) -> int:
        """Fewer while other connections wait."""
        return MAX_FRAMES_PER_TURN // 8 if self.turns.waiting else MAX_FRAMES_PER_TURN

    def check_unsent(self) -> None:
        """Close the connection with the most unread answers while there are too many bytes in all."""
        while True:
            sizes = {each: each.unsent_bytes for each in self.connections}
            if sum(sizes.values()) <= MAX_UNSENT_BYTES:
                return
            most = max(sizes, key=lambda each: (not self.book.is_voters(each), sizes[each]))
            self._count_closed("unsent")
            self.connection_gone(most)
            most.drop("unsent")

    @property
    def requests_in_flight(self) -> int:
        """Requests that were received and are not answered."""
        return sum(connection.in_flight for connection in self.connections)

    def malformed(self, why: str, error: MalformedMessage, peer: str) -> None:
        """A connection sent invalid bytes."""
        self._metrics.count_labelled("malformed_requests", self._label)
        self._on_malformed(why, str(error), peer)

    def _sweep(self) -> None:
        self._sweeping = self.loop.call_later(_SWEEP_SECONDS, self._sweep)
        self.book.sweep()
        self._revalidation.sweep()
        if self.logins is not None:
            self.logins.sweep()

    def _count_closed(self, why: str) -> None:
        self._metrics.count_labelled("connections_closed", f"{self._label} {why}")


@dataclass(frozen=True, slots=True)
class ServedApis:
    """The requests that a listener accepts, and their handler."""

    handler: Handler
    apis: Mapping[int, Api]
    """By API key."""


class KafkaListeners:
    """All listeners of the process, with shared metrics and shared scheduling.

    `served`: on all listeners but those in `others`, which are given by name. `authentications`: by name, for listeners with TLS. `stored`:
    credentials of the listeners with SASL. `work`: load, including that of the admin port.
    """

    def __init__(
        self,
        settings: Iterable[ListenerConfig],
        served: ServedApis,
        metrics: Metrics,
        on_malformed: Callable[[str, str, str], None],
        voter_ids: Callable[[], Collection[int]],
        *,
        others: Mapping[str, ServedApis] = MappingProxyType({}),
        authentications: Mapping[str, PortAuthentication] = MappingProxyType({}),
        stored: StoredCredentials | None = None,
        work: LoopWork | None = None,
    ) -> None:
        self._shares = shares = LoopShares(work=work)
        self._listeners = []
        for each in settings:
            own = others.get(each.name, served)
            self._listeners.append(
                KafkaListener(
                    each,
                    own.handler,
                    metrics,
                    on_malformed,
                    voter_ids,
                    shares=shares,
                    authentication=authentications.get(each.name),
                    stored=stored,
                    apis=own.apis,
                )
            )

    async def start(self, names: Collection[str] | None = None) -> None:
        """Bind and listen, on all or on those with these names. Raises ConfigError for one that can't be bound."""
        for each in self._listeners:
            if names is not None and each.settings.name not in names:
                continue
            address = each.settings.address
            try:
                await each.start()
            except OSError as error:
                raise refused_address("listeners", address, error) from error

    async def close(self, timeout_seconds: float) -> None:
        """Stop accepting connections. Answers that are ready may be sent until the timeout."""
        await asyncio.gather(*(each.close(timeout_seconds) for each in self._listeners))
        self._shares.large_messages.close()

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return sum(len(each.connections) for each in self._listeners)

    @property
    def requests_in_flight(self) -> int:
        """Requests that were received and are not answered."""
        return sum(each.requests_in_flight for each in self._listeners)

    @property
    def unfinished_bytes(self) -> int:
        """Received bytes of incomplete requests."""
        return sum(each.book.unfinished_bytes for each in self._listeners)
