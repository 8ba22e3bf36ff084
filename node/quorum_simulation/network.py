"""A simulated network that loses, delays, duplicates, reorders and cuts off messages.

Owns delivery and the result of every request (response, closed, refused, timed out). Must not know messages. Worse
than TCP on purpose: a connection neither orders nor protects anything.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import (
    FailureReason,
    RequestAbandoned,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
)
from quorum_node.raft.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchResponse,
    FetchSnapshotResponse,
    InboundResponse,
    OutboundRequest,
    Response,
    VoteRequest,
)
from quorum_node.records.identity import KEEPS_TARGET_VOTERS, Endpoint
from quorum_simulation.damage import with_a_flipped_bit
from quorum_simulation.scheduler import Scheduler

if TYPE_CHECKING:
    from quorum_simulation.host import SimulatedHost


@dataclass(slots=True)
class Weather:
    """How bad the network is right now. Probabilities per message, delays in milliseconds."""

    drop: float = 0.0
    duplicate: float = 0.0
    doubled_answers: float = 0.0
    damaged_answers: float = 0.0
    reorder: float = 0.0
    delay_ms: float = 0.0


@dataclass(slots=True)
class Waiting:
    """The sender that waits for the response to a delivered request."""

    source: "SimulatedHost"
    run: int
    correlation: int
    request: OutboundRequest


@dataclass(slots=True)
class Network:
    """Hosts by address, cut links, weather. `blocked` holds directed pairs of addresses."""

    scheduler: Scheduler
    random: Random
    hosts: dict[str, "SimulatedHost"] = field(default_factory=dict)
    blocked: set[tuple[str, str]] = field(default_factory=set)
    weather: Weather = field(default_factory=Weather)
    damaged_answers: int = 0
    intruders: "list[Callable[[str, Waiting], InboundResponse | None]]" = field(
        default_factory=list
    )
    """Each returns the answer that it gives at this address instead of the owner; None: it gives none there."""
    _pending: dict[tuple[str, int, int], str] = field(default_factory=dict)
    _next_request_id: int = 1

    def send(
        self,
        source: "SimulatedHost",
        correlation: int,
        endpoint: Endpoint,
        request: OutboundRequest,
        timeout_ms: float,
    ) -> None:
        """Deliver a request, or not; the sender always gets a result."""
        key = (source.address, source.run, correlation)
        self._pending[key] = endpoint.host
        self.scheduler.after(timeout_ms, self._fail, source, key, FailureReason.TIMEOUT)
        if self._is_lost(source.address, endpoint.host):
            return
        self.scheduler.after(self._latency_ms(), self._arrive, source, key, endpoint, request)
        if self._strikes(self.weather.duplicate):
            delay_ms = self._latency_ms() * 4
            self.scheduler.after(delay_ms, self._arrive, source, key, endpoint, request)

    def respond(self, source: "SimulatedHost", request_id: int, response: Response) -> None:
        """Send an answer back to whoever asked, if anyone still waits."""
        waiting = source.waiting.pop(request_id, None)
        if waiting is None or self._is_lost(source.address, waiting.source.address):
            return
        if isinstance(response, FetchResponse) and response.range is not None:
            # Only bytes are transferred; the range was for the sender's own driver.
            response = FetchResponse(
                response.error,
                response.leader,
                response.high_watermark,
                response.log_start_offset,
                response.diverging,
                None,
                self._on_the_way(response.records),
                response.answer,
                None,
                response.keeping_up,
            )
        elif isinstance(response, FetchSnapshotResponse):
            response = replace(response, part=None)
        told = self._forged(source.address, waiting) or response
        self.scheduler.after(self._latency_ms(), self._answered, waiting, told)
        if self._strikes(self.weather.doubled_answers):
            delay_ms = self._latency_ms() * 4
            self.scheduler.after(delay_ms, self._answered_again, waiting, told)

    def vote_request(self, host: "SimulatedHost", request_id: int) -> VoteRequest | None:
        """The Vote that is being answered, for the invariants."""
        waiting = host.waiting.get(request_id)
        request = waiting.request if waiting is not None else None
        return request if isinstance(request, VoteRequest) else None

    def close_connections(self, address: str) -> None:
        """Every request that is out from or to this address fails as its connection closes."""
        self._close(lambda source, target: address in (source, target))

    def close_between(self, pairs: set[tuple[str, str]]) -> None:
        """The same for the requests of these (source, target)."""
        self._close(lambda source, target: (source, target) in pairs)

    def _close(self, is_hit: Callable[[str, str], bool]) -> None:
        for key, target in list(self._pending.items()):
            if is_hit(key[0], target):
                source = self.hosts[key[0]]
                self.scheduler.after(
                    self._latency_ms(), self._fail, source, key, FailureReason.CLOSED
                )
        for host in self.hosts.values():
            for request_id, waiting in list(host.waiting.items()):
                if is_hit(waiting.source.address, host.address):
                    del host.waiting[request_id]
                    if host.up:
                        self.scheduler.after(
                            self._latency_ms(), host.handle, host.run, RequestAbandoned(request_id)
                        )

    def host_went_down(self, host: "SimulatedHost") -> None:
        """A process ended: its connections close, unless a partition hides that."""
        for key, target in list(self._pending.items()):
            if key[0] == host.address:
                del self._pending[key]
            elif target == host.address and (target, key[0]) not in self.blocked:
                source = self.hosts[key[0]]
                self.scheduler.after(
                    self._latency_ms(), self._fail, source, key, FailureReason.CLOSED
                )
        for other in self.hosts.values():
            for request_id, waiting in list(other.waiting.items()):
                if waiting.source is host:
                    del other.waiting[request_id]
                    self.scheduler.after(
                        self._latency_ms(), other.handle, other.run, RequestAbandoned(request_id)
                    )
        host.waiting.clear()

    def _forged(self, address: str, waiting: Waiting) -> InboundResponse | None:
        for intruder in self.intruders:
            forged = intruder(address, waiting)
            if forged is not None:
                return forged
        return None

    def _is_lost(self, source: str, target: str) -> bool:
        if (source, target) in self.blocked:
            return True
        return self._strikes(self.weather.drop)

    def _strikes(self, probability: float) -> bool:
        return bool(probability) and self.random.random() < probability

    def _on_the_way(self, records: bytes) -> bytes:
        if not records or not self._strikes(self.weather.damaged_answers):
            return records
        self.damaged_answers += 1
        return with_a_flipped_bit(records, self.random)

    def _latency_ms(self) -> float:
        weather, random = self.weather, self.random
        latency_ms = 0.05 + random.random() * 0.4
        if weather.delay_ms:
            latency_ms += random.random() * weather.delay_ms
        if weather.reorder and random.random() < weather.reorder:
            latency_ms += random.random() * 20
        return latency_ms

    def _arrive(
        self,
        source: "SimulatedHost",
        key: tuple[str, int, int],
        endpoint: Endpoint,
        request: OutboundRequest,
    ) -> None:
        target = self.hosts.get(endpoint.host)
        if (source.address, endpoint.host) in self.blocked:
            return
        waiting = Waiting(source, key[1], key[2], request)
        if target is None:
            forged = self._forged(endpoint.host, waiting)
            if forged is not None:
                self.scheduler.after(self._latency_ms(), self._answered, waiting, forged)
                return
        if target is None or not target.up:
            self.scheduler.after(self._latency_ms(), self._fail, source, key, FailureReason.REFUSED)
            return
        if isinstance(request, ApiVersionsRequest):
            answer = ApiVersionsResponse(RaftError.NONE, 0, 1, KEEPS_TARGET_VOTERS)
            self.scheduler.after(self._latency_ms(), self._answered, waiting, answer)
            return
        request_id = self._next_request_id
        self._next_request_id += 1
        target.waiting[request_id] = waiting
        target.handle(target.run, RequestReceived(request_id, request))

    def _answered(self, waiting: Waiting, response: InboundResponse) -> None:
        source = waiting.source
        if self._pending.pop((source.address, waiting.run, waiting.correlation), None) is not None:
            source.cluster.watch.answered(source, response)
            source.handle(waiting.run, ResponseReceived(waiting.correlation, response))

    def _answered_again(self, waiting: Waiting, response: InboundResponse) -> None:
        """The same answer once more, whether or not the first one has arrived."""
        waiting.source.handle(waiting.run, ResponseReceived(waiting.correlation, response))

    def _fail(
        self, source: "SimulatedHost", key: tuple[str, int, int], reason: FailureReason
    ) -> None:
        if self._pending.pop(key, None) is not None:
            source.cluster.watch.request_failed(source)
            source.handle(key[1], RequestFailed(key[2], reason))
