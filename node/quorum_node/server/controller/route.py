"""The type of a row in the tables of the controller's APIs (`routes.py` and `topic_routes.py`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quorum_node.controller.decision import Decision
from quorum_node.controller.view import View
from quorum_node.protocol.errors import ErrorCode
from quorum_node.schema.schema import Message


@dataclass(frozen=True, slots=True)
class Route:
    """One API.

    `decide(view, request)` makes the decision. `refuse(request, error, text)` makes the answer of a node that can't, or does not, serve
    it.
    """

    decide: Callable[[View, Any], Decision]
    refuse: Callable[[Any, ErrorCode, str], Message]
