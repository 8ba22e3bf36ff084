"""Requests to the controller: refused, or decided, and answered when the decision is committed.

Owns the answers of a node that is not, or no longer, the active controller. Rights were checked before (`rights/guard.py`). Must not know
what a request means (`routes.py`), nor when commits happen (`active_controller.py`).
"""

from quorum_node.controller.authorization import Rights
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.errors import RaftError
from quorum_node.schema.schema import Message
from quorum_node.server.controller.active_controller import ActiveController
from quorum_node.server.controller.port import Asking
from quorum_node.server.controller.route import Route
from quorum_node.server.controller.routes import ROUTES
from quorum_node.server.observing.metrics import PartitionMetrics
from quorum_node.server.partition.port import TooLarge
from quorum_node.server.wire.errors import controller_error

_NOT_HERE = "this node is not the active controller"


class ControllerApi:
    """The APIs of `ROUTES`."""

    def __init__(self, controller: ActiveController, metrics: PartitionMetrics) -> None:
        self._controller = controller
        self._metrics = metrics

    @staticmethod
    def serves(body: Message | None) -> bool:
        """Whether the request is one for the controller."""
        return type(body) in ROUTES

    @staticmethod
    def refuse(body: Message, error: ErrorCode, text: str) -> Message:
        """The answer of a node that can't, or does not, serve the request."""
        return ROUTES[type(body)].refuse(body, error, text)

    def handle(self, asking: Asking, body: Message, rights: Rights) -> None:
        """Answer now or later, exactly once. `rights`: those of the caller of this request."""
        route = ROUTES[type(body)]
        self._metrics.count("controller_requests")
        view = self._controller.view(asking.caller, rights)
        if view is None:
            asking.reply(route.refuse(body, ErrorCode.NOT_CONTROLLER, _NOT_HERE))
            return
        decision = route.decide(view, body)
        answer = decision.answer
        assert answer is not None, f"{type(body).__name__} was decided without an answer"

        def settled(error: RaftError | TooLarge | None) -> None:
            asking.reply(answer if error is None else _refusal(route, body, error))

        self._controller.carry_out(decision, settled)


def _refusal(route: Route, body: Message, error: RaftError | TooLarge) -> Message:
    if isinstance(error, TooLarge):
        text = f"{error.size_bytes} bytes of records are too many for one request"
        return route.refuse(body, ErrorCode.POLICY_VIOLATION, text)
    return route.refuse(body, controller_error(error), error.value)
