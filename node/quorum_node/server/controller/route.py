"""The type of a row in the tables of the controller's APIs (`routes.py` and `topic_routes.py`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quorum_node.controller.decision import Decision
from quorum_node.controller.view import View
from quorum_node.protocol.errors import ErrorCode
from quorum_node.schema.schema import Message


def _is_short(view: View, request: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Route:
    """One API.

    `decide(view, request)` makes the decision. `refuse(request, error, text)` makes the answer of a node that can't, or does not, serve
    it. `takes_long(view, request)`: whether the decision takes long although the request is short. `is_pure`: whether a thread may decide; it
    may not where the decision changes leases or the order of snapshots, or reads the replica.
    """

    decide: Callable[[View, Any], Decision]
    refuse: Callable[[Any, ErrorCode, str], Message]
    takes_long: Callable[[View, Any], bool] = _is_short
    is_pure: bool = True
