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
MAX_LINES = 100
"""Lines in this interval: a broker chooses the principals and the addresses in its Envelopes. Further denials are only counted."""
MAX_REMEMBERED = 1000
_MAX_CHARS = 300
"""Of a principal, which may have 32 KiB in an Envelope."""
_LAST = "; further denials are left out for ten seconds, and only counted"
METRIC = "authorization_denials"
_LOG = structlog.get_logger("quorum_node")


class Denials:
    """`clock`: in seconds."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._clock = clock
        self._reported: dict[tuple[str, str, str], tuple[float, int]] = {}
        """When it was last logged, and how often it happened since, by principal, address and operation."""
        self._lines, self._lines_since = 0, -LOG_EVERY_S

    def denied(self, caller: Caller, operation: str, why: str) -> None:
        """`operation`: the name of the API, or method and route."""
        self._metrics.count_labelled(METRIC, f"{role_name(caller)} {operation}")
        principal = caller.principal[:_MAX_CHARS]
        key = (principal, caller.host, operation)
        now = self._clock()
        reported_at, silent = self._reported.get(key, (-LOG_EVERY_S, 0))
        if now - reported_at < LOG_EVERY_S:
            self._reported[key] = reported_at, silent + 1
            return
        if now - self._lines_since >= LOG_EVERY_S:
            self._lines, self._lines_since = 0, now
        if self._lines == MAX_LINES:
            return
        self._lines += 1
        if len(self._reported) >= MAX_REMEMBERED:
            self._reported.clear()
        self._reported[key] = now, 0
        identity, end = caller.identity, _LAST if self._lines == MAX_LINES else ""
        _LOG.warning(
            f"authorizer: denied {operation}: {why.replace(caller.principal, principal)}{end}",
            principal=principal,
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
