"""The port of this package: the methods of a replica that the controller requires, and the controller's methods for other packages."""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

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

_T = TypeVar("_T")


class NodeReplica(ControlledReplica, RegisteringReplica, CoordinatedReplica, Protocol):
    """The replica of partition 0."""

    def controller_endpoint(self) -> Endpoint:
        """The endpoint of this node's Kafka listener for controllers."""


class Decider(Protocol):
    """Takes decisions while this node is the active controller."""

    @property
    def is_held_back(self) -> bool:
        """Whether this node leads, but can't be the active controller because of a finalized feature level."""

    def view(self, caller: Caller = NOBODY, rights: Rights = UNRESTRICTED) -> View | None:
        """The view that a command decides on; None on every node but the active controller."""

    def carry_out(
        self, decision: Decision, settled: Callable[[RaftError | TooLarge | None], None]
    ) -> None:
        """Append the records of a decision. It must have been made on the latest view, with no change since."""


class Asking(Protocol):
    """A request that waits for its answer."""

    @property
    def caller(self) -> Caller: ...

    @property
    def takes_long(self) -> bool:
        """Whether its pure work is done on a thread."""

    def use_thread(self) -> None:
        """Its pure work takes long, although it is short."""

    def prepare(self, work: Callable[[], _T], then: Callable[[_T], None]) -> None:
        """Do pure work, then continue with its result on the loop."""

    def reply(self, body: Message) -> None: ...

    def reply_made(self, make: Callable[[], Message]) -> None:
        """Reply with the result of pure work."""


class ControllerRequests(Protocol):
    """The APIs of the controller."""

    def serves(self, body: Message | None) -> bool:
        """Whether the request is one for the controller."""

    def handle(self, asking: Asking, body: Message, rights: Rights) -> None:
        """Answer now or later, exactly once. `rights`: those of the caller of this request."""

    def refuse(self, body: Message, error: ErrorCode, text: str) -> Message:
        """The answer of a node that can't, or does not, serve the request."""


class ControllerPort(Protocol):
    """The controller, as the request handlers see it."""

    @property
    def api(self) -> ControllerRequests: ...

    @property
    def is_held_back(self) -> bool:
        """Whether this node leads, but can't be the active controller. It then accepts plain configs only."""

    def finalized_levels(self) -> Iterable[tuple[str, int]]:
        """Name and level of each finalized feature, as committed."""

    def finalized_epoch(self) -> int:
        """Offset in the log at which these levels were read. It never decreases."""
