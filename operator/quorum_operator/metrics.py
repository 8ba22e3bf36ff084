"""Prometheus metrics of the operator, and the standstill that `/healthz` judges by.

`reconcile_in_progress_start_time_seconds` is the start of the oldest reconcile under way (0 when
there is none), so that `time() - x` alerts on a stuck one.
"""

import time
from time import monotonic
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from quorum_operator.crd import KIND
from quorum_operator.live_page import LastMoves
from quorum_operator.quorum_series import PLACE, QuorumSeries
from quorum_operator.status_crd import MetadataQuorumStatus

_PREFIX = "metadataquorum_operator"


class Reconciled(NamedTuple):
    """Which resource."""

    kind: str
    namespace: str
    name: str


class _Begun(NamedTuple):
    """When a reconcile began: for people, and for measuring. A clock that is set while it runs must fail no probe."""

    wall: float
    monotonic: float


class _Waits:
    """What has waited within the process, and for how long."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reconciles = Histogram(
            f"{_PREFIX}_reconcile_wait_seconds",
            "From the moment that a reconcile was due to its begin: waiting for other resources, or for the process.",
            registry=registry,
            buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )
        self.calls = Counter(
            f"{_PREFIX}_api_calls",
            "Calls to the API server but for watches and the lease, by method.",
            ("method",),
            registry=registry,
        )
        self.call_seconds = Counter(
            f"{_PREFIX}_api_call_wait_seconds",
            "Time that calls to the API server have waited within the operator before they were made.",
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
        """When its last reconcile ended, in an error or not, or when the next one is due, if that is later (monotonic)."""
        self._quorums = QuorumSeries(self.registry, _PREFIX)
        self.moves = LastMoves()
        """Of each quorum, for the live page."""
        self.leading = False
        self._last_reconcile = Gauge(
            f"{_PREFIX}_last_reconcile_time_seconds",
            "End of the last reconcile that reached its end.",
            ("kind", *PLACE),
            registry=self.registry,
        )
        self._oldest = Gauge(
            f"{_PREFIX}_reconcile_in_progress_start_time_seconds",
            "Start of the oldest reconcile under way, 0 when there is none.",
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
            "Executed steps by kind; refused ones changed nothing.",
            ("step", "outcome"),
            registry=self.registry,
        )
        self._leading = Gauge(
            f"{_PREFIX}_leading",
            "1 while this operator works: it holds the lease, or needs none.",
            registry=self.registry,
        )

    def set_leading(self, leading: bool) -> None:
        """Whether this operator works, or waits for its turn."""
        self.leading = leading
        self._leading.set(leading)

    def begin(self, resource: Reconciled) -> None:
        """A reconcile begins."""
        self._in_progress[resource] = _Begun(time.time(), monotonic())

    def end(self, resource: Reconciled, error: str | None) -> None:
        """A reconcile ended."""
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
        """A reconcile begins that was due for so long."""
        self._waits.reconciles.observe(seconds)

    def count_call(self, method: str, waited_s: float) -> None:
        """A call to the API server is made."""
        self._waits.calls.labels(method).inc()
        self._waits.call_seconds.inc(waited_s)

    def forget(self, resource: Reconciled) -> None:
        """The resource is gone, or there is nothing to do for it any more."""
        self._last.pop(resource, None)
        self._ended.pop(resource, None)
        self._last_reconcile.remove(*resource)
        if resource.kind == KIND:
            self._quorums.forget(resource.namespace, resource.name)
            self.moves.forget((resource.namespace, resource.name))

    def watch(self, resource: Reconciled) -> None:
        """The resource is there: from now on its reconciles must come."""
        self._last.setdefault(resource, monotonic())
        self._ended.setdefault(resource, monotonic())

    def wait(self, resource: Reconciled, seconds: float) -> None:
        """Its next reconcile is due then."""
        self._ended[resource] = monotonic() + seconds

    def staleness_s(self) -> float:
        """Age of the last good reconcile of the resource that waits longest; 0 without any."""
        now = monotonic()
        return max((now - at for at in self._last.values()), default=0.0)

    def standstill_s(self) -> float:
        """For how long no reconcile of any resource has ended, in an error or not, though one was due."""
        now = monotonic()
        return min((max(now - at, 0.0) for at in self._ended.values()), default=0.0)

    def count_step(self, step: str, changed: bool) -> None:
        """A step was executed."""
        self._steps.labels(step, "changed" if changed else "refused").inc()

    def set_status(self, namespace: str, name: str, status: MetadataQuorumStatus) -> None:
        """What the status says."""
        self._quorums.tell(namespace, name, status)

    def statuses(self) -> dict[tuple[str, str], MetadataQuorumStatus]:
        """The last one of each quorum, by namespace and name."""
        return self._quorums.statuses()

    def render(self) -> bytes:
        """The Prometheus text."""
        return generate_latest(self.registry)
