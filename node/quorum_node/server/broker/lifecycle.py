"""The lease of this broker with the active controller: registered, fenced, unfenced, shutting down.

Owns the time of the registration and the content of heartbeats. The broker requests to stay fenced until the replicas have applied the
image up to its registration. A controlled shutdown first requests the controller to move leaderships to other brokers. Does not depend on
partitions.
Source: KIP-631, "Broker Registration and State Management"; KIP-858 (directories); the rules of a stock BrokerLifecycleManager.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import UUID

from quorum_node.controller.feature_levels import OF_A_BROKER
from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.protocol.apis import BROKER_HEARTBEAT, BROKER_REGISTRATION
from quorum_node.protocol.broker_registration import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    RegisteredListener,
    SupportedFeatureRange,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.events import FailureReason
from quorum_node.schema.schema import Message
from quorum_node.server.broker.controller_channel import ControllerChannel
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.registration_refusals import reason_of
from quorum_node.server.observing.repeats import is_written

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_REPORTED_AFTER = 3
"""Number of consecutive refusals before a warning is logged: during a controller election the first requests are refused."""
NO_EPOCH = -1


def registration(
    broker_id: int,
    rack: str | None,
    listeners: tuple[RegisteredListener, ...],
    directory_ids: tuple[UUID, ...],
    previous_broker_epoch: int,
    incarnation_id: UUID | None = None,
) -> BrokerRegistrationRequest:
    """The registration request of this process, without the cluster id, which is added later.

    The controller refuses the registration if a finalized feature is outside of the supported ranges.
    """
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id="",
        incarnation_id=incarnation_id or fresh_uuid(),
        listeners=listeners,
        features=tuple(
            SupportedFeatureRange(
                name=name,
                min_supported_version=levels.min_level,
                max_supported_version=levels.max_level,
            )
            for name, levels in OF_A_BROKER.items()
        ),
        rack=rack,
        log_dirs=directory_ids,
        previous_broker_epoch=previous_broker_epoch,
    )


@dataclass(frozen=True, slots=True)
class BrokerState:
    """What heartbeats report. Each function returns the present value."""

    applied_offset: Callable[[], int]
    """Offset of the last metadata record that the replicas have applied."""
    failed_ids: Callable[[], tuple[UUID, ...]] = tuple
    """Ids of the log directories that failed in this process."""
    cordoned_ids: Callable[[], tuple[UUID, ...] | None] = lambda: None
    """Ids of the cordoned log directories; None if the cluster's metadata version has none (KIP-1066)."""


def _ignore() -> None:
    """Nobody is informed."""


@dataclass(frozen=True, slots=True)
class LifecycleCallbacks:
    """What the lifecycle reports to the broker."""

    registered: Callable[[], None] = _ignore
    """Called after each registration."""
    superseded: Callable[[], None] = _ignore
    """Called once, when a later process has registered with this id. This process has to end (KIP-631, "Broker ID Conflicts")."""
    failure_unreported: Callable[[], None] = _ignore
    """Called once, when the controller was not informed of a failed log directory in time."""


class Lifecycle:
    """Registers and sends heartbeats.

    `interval_ms`: between two heartbeats. `failure_timeout_ms`: how long the report of a failed log directory may take.
    """

    def __init__(
        self,
        own: BrokerRegistrationRequest,
        channel: ControllerChannel,
        events: BrokerEvents,
        state: BrokerState,
        callbacks: LifecycleCallbacks,
        *,
        interval_ms: int,
        failure_timeout_ms: int = 30_000,
    ) -> None:
        self._own = own
        self._channel = channel
        self._events = events
        self._state = state
        self._callbacks = callbacks
        self._sent_cordoned: tuple[UUID, ...] | None = None
        self._failure_timeout_seconds = failure_timeout_ms / 1000
        self._reported: frozenset[UUID] = frozenset()
        self._failure_timer: asyncio.TimerHandle | None = None
        self._interval_seconds = interval_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._in_flight = False
        self._refusals = 0
        self._reason = ""
        self._left: Callable[[], None] | None = None
        self._closed = False
        self._is_caught_up = False
        self.broker_epoch = NO_EPOCH
        self.is_fenced = True

    def start(self, cluster_id: str) -> None:
        """Register, and renew the lease from then on."""
        self._own = replace(self._own, cluster_id=cluster_id)
        self._register()

    def leave(self, left: Callable[[], None]) -> None:
        """Request a controlled shutdown. `left` is called once, when it is completed, or soon if the broker is not registered."""
        self._left = left
        if self.broker_epoch == NO_EPOCH:
            self._loop.call_soon(left)
            return
        self._events.leaves()
        self._beat_now()

    def directory_failed(self) -> None:
        """Report the failed log directory with a heartbeat at once."""
        if self._failure_timer is None:
            self._failure_timer = self._loop.call_later(
                self._failure_timeout_seconds, self._not_reported
            )
        if self.broker_epoch != NO_EPOCH:
            self._beat_now()

    def close(self) -> None:
        """Stop the heartbeats."""
        self._closed = True
        self._stop_timer()
        self._stop_failure_timer()

    # -- registration

    def _register(self) -> None:
        self._timer = None
        if self._closed or self._in_flight:
            return
        self._in_flight = True
        failed = self._state.failed_ids()
        online = tuple(each for each in self._own.log_dirs if each not in failed)
        body = replace(self._own, log_dirs=online)
        self._channel.ask(BROKER_REGISTRATION, body, self._registered)

    def _registered(self, outcome: Message | FailureReason) -> None:
        self._in_flight = False
        if self._closed:
            return
        if isinstance(outcome, BrokerRegistrationResponse) and not outcome.error_code:
            self.broker_epoch = outcome.broker_epoch
            self._refusals = 0
            self._events.registered(self.broker_epoch)
            self._callbacks.registered()
            self._beat_now()
            return
        self._refusals += 1
        self._report(reason_of(outcome))
        pause = _FIRST_PAUSE_SECONDS * 2.0 ** min(self._refusals - 1, 16)
        self._timer = self._loop.call_later(min(pause, _LONGEST_PAUSE_SECONDS), self._register)

    def _report(self, reason: str) -> None:
        """Log why it is not registered: each new reason, and the same one more and more rarely."""
        times = self._refusals - _REPORTED_AFTER + 1
        if times >= 1 and (reason != self._reason or is_written(times)):
            self._reason = reason
            self._events.not_registered(reason)

    # -- heartbeats

    @property
    def _has_caught_up(self) -> bool:
        """Whether the replicas have applied the image up to the registration."""
        return self._state.applied_offset() >= self.broker_epoch

    def image_applied(self) -> None:
        """Send a heartbeat at once if the replicas have now applied all metadata that is needed to be unfenced, or if the metadata has
        cordoned other directories.
        """
        if self.is_fenced and self.broker_epoch != NO_EPOCH and not self._is_caught_up:
            self._is_caught_up = self._has_caught_up
            if self._is_caught_up:
                self._beat_now()
        elif not self.is_fenced and self._state.cordoned_ids() != self._sent_cordoned:
            self._beat_now()

    def _beat_now(self) -> None:
        self._stop_timer()
        self._beat()

    def _beat(self) -> None:
        self._timer = None
        if self._closed or self._in_flight:
            return
        self._in_flight = True
        applied, failed = self._state.applied_offset(), self._state.failed_ids()
        has_caught_up = self._has_caught_up
        # Before that, the configs that it knows may be old ones.
        self._sent_cordoned = self._state.cordoned_ids() if has_caught_up else None
        request = BrokerHeartbeatRequest(
            broker_id=self._own.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=applied,
            want_fence=not has_caught_up,
            want_shut_down=self._left is not None,
            offline_log_dirs=failed,
            cordoned_log_dirs=self._sent_cordoned,
        )
        self._channel.ask(
            BROKER_HEARTBEAT, request, lambda outcome: self._answered(frozenset(failed), outcome)
        )

    def _answered(self, failed: frozenset[UUID], outcome: Message | FailureReason) -> None:
        self._in_flight = False
        if self._closed:
            return
        pause = min(self._interval_seconds, _FIRST_PAUSE_SECONDS)
        if isinstance(outcome, BrokerHeartbeatResponse):
            if outcome.error_code == ErrorCode.STALE_BROKER_EPOCH:
                self.close()
                self._callbacks.superseded()
                return
            if outcome.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED:
                self._events.unregistered()
                self.broker_epoch, self._is_caught_up = NO_EPOCH, False
                self._note_fenced(fenced=True)
                self._register()
                return
            if not outcome.error_code:
                self._note_reported(failed)
                if self._left is None:
                    self._note_fenced(fenced=outcome.is_fenced)
                elif outcome.should_shut_down:
                    self._events.left()
                    left, self._left = self._left, None
                    self.close()
                    left()
                    return
                # While the logs are being opened, it can't be unfenced: `image_applied` does not wait for the next heartbeat.
                is_waiting = self.is_fenced and self._has_caught_up
                if not is_waiting and self._left is None and self._is_reported:
                    pause = self._interval_seconds
        self._timer = self._loop.call_later(pause, self._beat)

    def _note_fenced(self, *, fenced: bool) -> None:
        if fenced == self.is_fenced:
            return
        self.is_fenced = fenced
        if fenced:
            self._is_caught_up = False
            self._events.fenced()
        else:
            self._events.unfenced()

    # -- failed directories

    @property
    def _is_reported(self) -> bool:
        """Whether the controller was informed of all failed directories."""
        return self._reported.issuperset(self._state.failed_ids())

    def _note_reported(self, failed: frozenset[UUID]) -> None:
        self._reported |= failed
        if self._is_reported:
            self._stop_failure_timer()

    def _not_reported(self) -> None:
        self._failure_timer = None
        if not self._closed:
            self._callbacks.failure_unreported()

    def _stop_failure_timer(self) -> None:
        if self._failure_timer is not None:
            self._failure_timer.cancel()
            self._failure_timer = None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
