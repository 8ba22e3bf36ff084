"""What the controller needs of a replica, and what others may ask of the controller: the port of this room."""

from collections.abc import Callable, Iterable
from typing import Protocol

from quorum_node.controller.decision import Decision
from quorum_node.controller.view import NOBODY, UNRESTRICTED, Caller, Rights, View
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import Endpoint
from quorum_node.schema.schema import Message
from quorum_node.server.controller.active_controller import ControlledReplica
from quorum_node.server.controller.registrar import RegisteringReplica
from quorum_node.server.controller.snapshot_coordinator import CoordinatedReplica
from quorum_node.server.partition.port import TooLarge


class NodeReplica(ControlledReplica, RegisteringReplica, CoordinatedReplica, Protocol):
    """The replica of partition 0."""

    def controller_endpoint(self) -> Endpoint:
        """Where this node's Kafka port is reached."""


class Decider(Protocol):
    """Who decides, while this node is the active controller."""

    @property
    def is_held_back(self) -> bool:
        """Whether this node leads, and a finalized feature keeps it from being the active controller."""

    def view(self, caller: Caller = NOBODY, rights: Rights = UNRESTRICTED) -> View | None:
        """What a command sees now; None on everyone but the active controller."""

    def carry_out(
        self, decision: Decision, settled: Callable[[RaftError | TooLarge | None], None]
    ) -> None:
        """Append what was decided on the latest view; nothing else may have happened in between."""


class Asking(Protocol):
    """A request that waits for its answer."""

    @property
    def caller(self) -> Caller: ...

    def reply(self, body: Message) -> None: ...


class ControllerRequests(Protocol):
    """The APIs of the controller."""

    def serves(self, body: Message | None) -> bool:
        """Whether the request is one for the controller."""

    def handle(self, asking: Asking, body: Message, rights: Rights) -> None:
        """Answer now or later, once. `rights`: of its caller, within this request."""

    def refuse(self, body: Message, error: ErrorCode, text: str) -> Message:
        """The answer of whoever can't or won't."""


class ControllerPort(Protocol):
    """The controller, as those see it who answer requests."""

    @property
    def api(self) -> ControllerRequests: ...

    @property
    def is_held_back(self) -> bool:
        """Whether this node leads and may not decide: then plain configs are all that it takes."""

    def finalized_levels(self) -> Iterable[tuple[str, int]]:
        """Committed levels of features."""

    def finalized_epoch(self) -> int:
        """Where in the log these levels were known; it only grows."""
