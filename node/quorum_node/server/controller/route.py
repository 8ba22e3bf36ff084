"""What is said of one API of the controller; the tables are `routes.py` and `topic_routes.py`."""

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

    `decide(view, request)`; `refuse(request, error, text)` is the answer of whoever can't or won't.
    """

    decide: Callable[[View, Any], Decision]
    refuse: Callable[[Any, ErrorCode, str], Message]
