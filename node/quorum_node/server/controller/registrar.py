"""Registers this process as a controller with the active controller (KIP-919).

Owns when the request is sent: the committed registration is not the one of this process, the finalized metadata version has
registrations, and a leader is known. Leaders, observers and witnesses all register, also with a leader of stock Kafka. Must not know what
is written (`controller/registration.py`).

Of two processes with the same id (a disk is being replaced), the newest voter registers. If neither is a voter, the one that started last
registers, and the other one stops trying. A new process has a new incarnation id, so it takes over by itself.

There is no polling: a change of the image, of the leader or of the voters triggers a check. A refused request, and an answer that is not
followed by the record, are retried after a pause that doubles, until there is another leader.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol
from uuid import UUID

from quorum_node.controller.feature_levels import ANNOUNCED
from quorum_node.controller.registration import lacks_registration, register_controller
from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.image.brokers import ControllersImage
from quorum_node.image.committed import CommittedImage
from quorum_node.image.features import FeaturesImage
from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import CONTROLLER_REGISTRATION
from quorum_node.protocol.broker_registration import RegisteredListener, SupportedFeatureRange
from quorum_node.protocol.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import FailureReason
from quorum_node.raft.messages import CurrentLeader
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.schema.schema import Message
from quorum_node.security.tls.listener_security import SecurityProtocol
from quorum_node.server.controller.active_controller import ActiveController
from quorum_node.server.controller.events import ControllerEvents
from quorum_node.server.partition.port import TooLarge

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 120.0
"""As in stock Kafka."""

Ask = Callable[[Endpoint, Api, Message, Callable[[Message | FailureReason], None]], None]
"""Send a request to the node at an endpoint. The callback is called once, never before the call returns."""


class RegisteringReplica(Protocol):
    """The replica of this process."""

    @property
    def key(self) -> ReplicaKey: ...

    @property
    def committed(self) -> CommittedImage:
        """The image of the committed records that are applied."""

    def leader(self) -> CurrentLeader:
        """The leader that this replica knows, possibly itself."""

    def newest_voter_of_own_id(self) -> ReplicaKey | None:
        """This replica, or another one with the same id; None if the id is not a voter's."""

    def has_stopped(self) -> bool:
        """Whether this replica has halted."""


def own_registration(
    key: ReplicaKey,
    endpoint: Endpoint,
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
    others: Iterable[RegisteredListener] = (),
    incarnation_id: UUID | None = None,
) -> ControllerRegistrationRequest:
    """The registration of this process. `others`: listeners besides the one that the members of the quorum connect to."""
    listener = RegisteredListener(
        name=endpoint.name,
        host=endpoint.host,
        port=endpoint.port,
        security_protocol=protocol.id,
    )
    return ControllerRegistrationRequest(
        controller_id=key.id,
        incarnation_id=incarnation_id or fresh_uuid(),
        listeners=(listener, *others),
        features=tuple(
            SupportedFeatureRange(
                name=name,
                min_supported_version=levels.min_level,
                max_supported_version=levels.max_level,
            )
            for name, levels in ANNOUNCED.items()
        ),
        directory_id=key.uuid,
    )


class Registrar:
    """One per process. All methods run on the loop's thread."""

    def __init__(
        self,
        replica: RegisteringReplica,
        own: ControllerRegistrationRequest,
        controller: ActiveController,
        ask: Ask,
        events: ControllerEvents,
    ) -> None:
        self._replica = replica
        self._own = own
        self._controller = controller
        self._ask = ask
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._seen: tuple[FeaturesImage, ControllersImage] | None = None
        self._lacking = False
        self._was_registered = False
        self._superseded = False
        self._asked = False
        self._attempts = 0
        self._epoch = -1
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Cancel the timers."""
        self._stop_timer()

    def image_changed(self) -> None:
        """The image may have changed; mostly its registrations have not."""
        image = self._replica.committed.image
        seen = self._seen
        if seen is not None and seen[0] is image.features and seen[1] is image.controllers:
            return
        self._seen = image.features, image.controllers
        self._lacking = lacks_registration(image, self._own)
        found = image.controllers.get(self._own.controller_id)
        mine = found is not None and found.incarnation_id == self._own.incarnation_id
        if self._was_registered and not mine and not self._superseded:
            self._events.superseded()
        self._superseded = self._was_registered and not mine
        self._was_registered = self._was_registered or mine
        self.look()

    def look(self) -> None:
        """The leader, the voters or the registration may have changed: send a request if one is needed."""
        if not self._lacking or self._asked or not self._may_register():
            return
        leader = self._replica.leader()
        if leader.endpoint is None:
            return
        if leader.leader_epoch != self._epoch:
            self._epoch, self._attempts = leader.leader_epoch, 0
            self._stop_timer()
        if self._timer is not None:
            return
        self._asked = True
        self._attempts += 1
        if leader.leader_id == self._own.controller_id:
            self._register_here()
        else:
            self._ask(leader.endpoint, CONTROLLER_REGISTRATION, self._own, self._answered)

    def _may_register(self) -> bool:
        if self._replica.has_stopped():
            return False
        newest = self._replica.newest_voter_of_own_id()
        return not self._superseded if newest is None else newest == self._replica.key

    def _register_here(self) -> None:
        view = self._controller.view()
        if view is None:
            self._ended("this node leads, and is not the active controller")
            return
        decision = register_controller(view, self._own)
        answer = decision.answer
        assert isinstance(answer, ControllerRegistrationResponse)
        if answer.error_code:
            self._ended(answer.error_message)
        else:
            self._controller.carry_out(decision, self._settled)

    def _settled(self, error: RaftError | TooLarge | None) -> None:
        self._ended(error.value if isinstance(error, RaftError) else None)

    def _answered(self, outcome: Message | FailureReason) -> None:
        if isinstance(outcome, FailureReason):
            self._ended(f"the request to the active controller ended: {outcome.value}")
            return
        assert isinstance(outcome, ControllerRegistrationResponse)
        refused = outcome.error_message or f"error {outcome.error_code}"
        self._ended(refused if outcome.error_code else None)

    def _ended(self, problem: str | None) -> None:
        """The request is done: wait for the record (`problem` is None), or try again."""
        self._asked = False
        if problem is not None:
            self._events.not_registered(problem)
        pause = FIRST_PAUSE_SECONDS * 2.0 ** (self._attempts - 1)
        self._timer = self._loop.call_later(min(pause, LONGEST_PAUSE_SECONDS), self._look_again)
        self.look()

    def _look_again(self) -> None:
        self._timer = None
        self.look()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
