"""Calls the hooks of all invariants.

Owns the fan-out; only hooks that an invariant overrides are called. Must not know any rule.
"""

from collections.abc import Callable, Sequence
from typing import Any

from quorum_simulation.invariants.invariant import Invariant

HOOKS = (
    "started",
    "refused_to_start",
    "halted",
    "rotted",
    "appended",
    "truncated",
    "persisted",
    "responded",
    "answered",
    "request_failed",
    "role",
    "high_watermark",
    "acknowledged",
    "read_done",
    "snapshot_frozen",
    "log_started",
    "applied",
    "image_applied",
    "controller_progressed",
    "finished",
)


class Watch:
    """`watch.appended(host, ...)` calls `appended` of each invariant that has it."""

    started: Callable[..., None]
    refused_to_start: Callable[..., None]
    halted: Callable[..., None]
    rotted: Callable[..., None]
    appended: Callable[..., None]
    truncated: Callable[..., None]
    persisted: Callable[..., None]
    responded: Callable[..., None]
    answered: Callable[..., None]
    request_failed: Callable[..., None]
    role: Callable[..., None]
    high_watermark: Callable[..., None]
    acknowledged: Callable[..., None]
    read_done: Callable[..., None]
    snapshot_frozen: Callable[..., None]
    log_started: Callable[..., None]
    applied: Callable[..., None]
    image_applied: Callable[..., None]
    controller_progressed: Callable[..., None]
    finished: Callable[..., None]

    def __init__(self) -> None:
        self.use(())

    def use(self, invariants: Sequence[Invariant]) -> None:
        """Watch with these from now on."""
        for hook in HOOKS:
            overriding = [
                getattr(invariant, hook)
                for invariant in invariants
                if getattr(type(invariant), hook) is not getattr(Invariant, hook)
            ]
            setattr(self, hook, _fan_out(overriding))


def _fan_out(hooks: list[Callable[..., None]]) -> Callable[..., None]:
    if len(hooks) == 1:
        return hooks[0]

    def call(*arguments: Any) -> None:
        for hook in hooks:
            hook(*arguments)

    return call
