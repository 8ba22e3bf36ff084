"""Requests to the controller: refused, or decided, and answered when the decision is committed.

Owns the answers of a node that is not, or no longer, the active controller. Rights were checked before (`rights/guard.py`). Must not know
what a request means (`routes.py`), nor when commits happen (`active_controller.py`).

A decision that takes long is made on a thread, so that commits don't wait for it. It stands if it changes nothing, or if nobody else has
changed the state meanwhile; otherwise it is made again on the loop.
"""

from quorum_node.controller.authorization import Rights
from quorum_node.controller.decision import Decision
from quorum_node.controller.view import View
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.errors import RaftError
from quorum_node.schema.schema import Message
from quorum_node.server.controller.active_controller import ActiveController, Settled
from quorum_node.server.controller.planned import Planned, plan
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
            asking.reply_made(lambda: route.refuse(body, ErrorCode.NOT_CONTROLLER, _NOT_HERE))
            return
        if route.takes_long(view, body):
            asking.use_thread()
        if not (asking.takes_long and route.is_pure):
            self._carry_out(asking, route, body, view)
            return
        found, tenure = view, self._controller.tenure

        def decided(planned: Planned) -> None:
            settled = self._settled(asking, route, body, planned.decision)
            if not self._controller.carry_out_planned(planned, tenure, settled):
                self._decide_again(asking, route, body, rights)

        asking.prepare(lambda: plan(route.decide(found, body), found.image), decided)

    def _decide_again(self, asking: Asking, route: Route, body: Message, rights: Rights) -> None:
        """On the loop, where nothing changes meanwhile. Only a caller that may change something gets here."""
        view = self._controller.view(asking.caller, rights)
        if view is None:
            asking.reply_made(lambda: route.refuse(body, ErrorCode.NOT_CONTROLLER, _NOT_HERE))
        else:
            self._carry_out(asking, route, body, view)

    def _carry_out(self, asking: Asking, route: Route, body: Message, view: View) -> None:
        decision = route.decide(view, body)
        self._controller.carry_out(decision, self._settled(asking, route, body, decision))

    def _settled(self, asking: Asking, route: Route, body: Message, decision: Decision) -> Settled:
        answer = decision.answer
        assert answer is not None, f"{type(body).__name__} was decided without an answer"

        def settled(error: RaftError | TooLarge | None) -> None:
            if error is None:
                asking.reply(answer)
            else:
                asking.reply_made(lambda: _refusal(route, body, error))

        return settled


def _refusal(route: Route, body: Message, error: RaftError | TooLarge) -> Message:
    if isinstance(error, TooLarge):
        text = f"{error.size_bytes} bytes of records are too many for one request"
        return route.refuse(body, ErrorCode.POLICY_VIOLATION, text)
    return route.refuse(body, controller_error(error), error.value)
