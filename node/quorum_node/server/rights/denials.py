"""Logs and counts requests that were refused because the caller lacks a right.

Owns how often they are logged: repeated requests must not flood the log.
"""

import time
from collections.abc import Callable

import structlog

from quorum_node.security.caller import ANONYMOUS_PRINCIPAL, Caller
from quorum_node.server.observing.metrics import Metrics

LOG_EVERY_S = 10.0
"""In seconds: interval of log lines for the same caller and operation."""
MAX_REMEMBERED = 1000
METRIC = "authorization_denials"
_LOG = structlog.get_logger("quorum_node")


class Denials:
    """`clock`: in seconds."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._clock = clock
        self._told: dict[tuple[str, str, str], tuple[float, int]] = {}
        """When it was last logged, and how often it happened since, by principal, address and operation."""

    def denied(self, caller: Caller, operation: str, why: str) -> None:
        """`operation`: the name of the API, or method and route."""
        self._metrics.count_labelled(METRIC, f"{role_name(caller)} {operation}")
        key = (caller.principal, caller.host, operation)
        now = self._clock()
        told_at, silent = self._told.get(key, (-LOG_EVERY_S, 0))
        if now - told_at < LOG_EVERY_S:
            self._told[key] = told_at, silent + 1
            return
        if len(self._told) >= MAX_REMEMBERED:
            self._told.clear()
        self._told[key] = now, 0
        identity = caller.identity
        _LOG.warning(
            f"authorizer: denied {operation}: {why}",
            principal=caller.principal,
            subject=identity.uri() if identity is not None and identity.namespace else "",
            address=caller.host,
            listener=caller.listener,
            operation=operation,
            sinceThen=silent,
        )


def role_name(caller: Caller) -> str:
    """The role of the caller's certificate or token; `none` for a principal without a role, `anonymous` for an anonymous caller."""
    if caller.identity is not None:
        return caller.identity.role.value
    return "anonymous" if caller.principal == ANONYMOUS_PRINCIPAL else "none"
