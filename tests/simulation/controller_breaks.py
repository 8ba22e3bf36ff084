"""A controller that decides on a state that its log does not give; see `simulation/control`.

Same shape as `breaks.py`. A docstring says what is broken and, behind "Would:", what that would do.
"""

from collections.abc import Callable
from typing import Any

import pytest

from quorum_node.server.controller.active_controller import ActiveController
from quorum_simulation import story

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def _with_controllers(patch: Patch) -> None:
    patch.setattr(story, "CONTROLLER_SHARE", 1.0)


def keep_what_was_not_committed(patch: Patch) -> None:
    """The pending image outlives a failed append, and the leadership in which it was made.

    Would: decide on brokers and topics that do not exist.
    """
    _with_controllers(patch)
    patch.setattr(ActiveController, "_drop", lambda controller, why: None)


def ignore_appends_of_others(patch: Patch) -> None:
    """The controller does not process appends of others.

    Would: overwrite a recent setting of an administrator.
    """
    _with_controllers(patch)
    real = ActiveController.appended

    def deaf(controller: Any, append: Any) -> None:
        pending, controller._pending = controller._pending, None
        real(controller, append)
        controller._pending = pending

    patch.setattr(ActiveController, "appended", deaf)


BY_SIMULATION: tuple[Break, ...] = (keep_what_was_not_committed, ignore_appends_of_others)
FAULTS_FOR: dict[Break, frozenset[str]] = {
    keep_what_was_not_committed: frozenset({"isolate leader", "resign"}),
    ignore_appends_of_others: frozenset({"resign"}),
}
"""No invariant but that of the pending image shows them."""
