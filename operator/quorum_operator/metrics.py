"""Prometheus metrics of the operator, and the idle time that `/healthz` checks.

`reconcile_in_progress_start_time_seconds` is the start of the oldest reconcile in progress (0 if there is none), so
that `time() - x` alerts on a stuck one.
"""

import time
from time import monotonic
from typing import NamedTuple

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from quorum_operator.crd import KIND
from quorum_operator.live_page import LastMoves
from quorum_operator.namespaced_name import NamespacedName
from quorum_operator.quorum_series import PLACE, QuorumSeries
from quorum_operator.status_crd import MetadataQuorumStatus

EXPOSITION = CONTENT_TYPE_PLAIN_0_0_4
"""Content type of the metrics: Prometheus' text format."""
_PREFIX = "metadataquorum_operator"

# In this format they would be one more series of each counter, and nothing reads them.
disable_created_metrics()  # type: ignore[no-untyped-call] # the library has no annotation here


class Reconciled(NamedTuple):
    """Identifies a resource."""

    kind: str
    namespace: str
    name: str


class _Begun(NamedTuple):
    """Start of a reconcile, as wall-clock and monotonic time. Setting the clock must not fail a probe."""

    wall: float
    monotonic: float


class _Waits:
    """Waiting times within the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reconciles = Histogram(
            f"{_PREFIX}_reconcile_wait_seconds",
            "Time between a reconcile becoming due and its start: waiting for other resources or for the process.",
            registry=registry,
            buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )
        self.calls = Counter(
            f"{_PREFIX}_api_calls",
            "Calls to the API server by method, without watches and the lease.",
            ("method",),
            registry=registry,
        )
        self.call_seconds = Counter(
            f"{_PREFIX}_api_call_wait_seconds",
            "Time that calls to the API server were delayed by the operator's own rate limit.",
            registry=registry,
        )


class Metrics:
    """All metrics of one operator process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.started_at = time.time()
        self._in_progress: dict[Reconciled, _Begun] = {}
        self._last: dict[Reconciled, float] = {}
        self._ended: dict[Reconciled, float] = {}
        """Time at which its last reconcile ended (even with an error), or at which the next one is due, if later
        (monotonic).
        """
        self._quorums = QuorumSeries(self.registry, _PREFIX)
        self.moves = LastMoves()
        """Last steps of each quorum, for the live page."""
        self.leading = False
        self._last_reconcile = Gauge(
            f"{_PREFIX}_last_reconcile_time_seconds",
            "Time at which the last complete reconcile ended.",
            ("kind", *PLACE),
            registry=self.registry,
        )
        self._oldest = Gauge(
            f"{_PREFIX}_reconcile_in_progress_start_time_seconds",
            "Start time of the oldest reconcile in progress, 0 if there is none.",
            registry=self.registry,
        )
        self._oldest.set_function(
            lambda: min((each.wall for each in self._in_progress.values()), default=0.0)
        )
        self._duration = Histogram(
            f"{_PREFIX}_reconcile_duration_seconds",
            "Duration of a reconcile.",
            registry=self.registry,
            buckets=(0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )
        self._waits = _Waits(self.registry)
        self._failures = Counter(
            f"{_PREFIX}_reconcile_failures",
            "Reconciles that ended in an error.",
            ("error",),
            registry=self.registry,
        )
        self._steps = Counter(
            f"{_PREFIX}_steps",
            "Executed steps by kind and outcome; a refused step changed nothing.",
            ("step", "outcome"),
            registry=self.registry,
        )
        self._leading = Gauge(
            f"{_PREFIX}_leading",
            "1 while this operator is active: it holds the lease, or needs none.",
            registry=self.registry,
        )

    def set_leading(self, leading: bool) -> None:
        """Record whether this operator is active or on standby."""
        self.leading = leading
        self._leading.set(leading)

    def begin(self, resource: Reconciled) -> None:
        """Record the start of a reconcile."""
        self._in_progress[resource] = _Begun(time.time(), monotonic())

    def end(self, resource: Reconciled, error: str | None) -> None:
        """Record the end of a reconcile. `error`: the kind of its error; None on success."""
        began = self._in_progress.pop(resource)
        now = monotonic()
        self._duration.observe(now - began.monotonic)
        self._ended[resource] = now
        if error is not None:
            self._failures.labels(error).inc()
            return
        self._last[resource] = now
        self._last_reconcile.labels(*resource).set(time.time())

    def waited(self, seconds: float) -> None:
        """Record how long a starting reconcile was overdue."""
        self._waits.reconciles.observe(seconds)

    def count_call(self, method: str, waited_s: float) -> None:
        """Count a call to the API server, and the time that it was delayed here."""
        self._waits.calls.labels(method).inc()
        self._waits.call_seconds.inc(waited_s)

    def forget(self, resource: Reconciled) -> None:
        """Forget a resource that was deleted or is complete."""
        self._last.pop(resource, None)
        self._ended.pop(resource, None)
        self._last_reconcile.remove(*resource)
        if resource.kind == KIND:
            self._quorums.forget(resource.namespace, resource.name)
            self.moves.forget(NamespacedName(resource.namespace, resource.name))

    def watch(self, resource: Reconciled) -> None:
        """Expect reconciles of a resource from now on."""
        self._last.setdefault(resource, monotonic())
        self._ended.setdefault(resource, monotonic())

    def wait(self, resource: Reconciled, seconds: float) -> None:
        """Record when its next reconcile is due."""
        self._ended[resource] = monotonic() + seconds

    def staleness_s(self) -> float:
        """Age of the last successful reconcile of the resource that waits longest; 0 without resources."""
        now = monotonic()
        return max((now - at for at in self._last.values()), default=0.0)

    def standstill_s(self) -> float:
        """Time for which no due reconcile of any resource has ended, even with an error."""
        now = monotonic()
        return min((max(now - at, 0.0) for at in self._ended.values()), default=0.0)

    def count_step(self, step: str, changed: bool) -> None:
        """Count an attempted step. `changed`: whether it changed anything."""
        self._steps.labels(step, "changed" if changed else "refused").inc()

    def set_status(self, namespace: str, name: str, status: MetadataQuorumStatus) -> None:
        """Update the gauges from a status."""
        self._quorums.set_status(namespace, name, status)

    def statuses(self) -> dict[NamespacedName, MetadataQuorumStatus]:
        """The last status of each quorum, by namespace and name."""
        return self._quorums.statuses()

    def render(self) -> bytes:
        """The Prometheus text."""
        return generate_latest(self.registry)
