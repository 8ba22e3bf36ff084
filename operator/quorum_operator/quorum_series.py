"""Metrics of each MetadataQuorum, computed from its status when they are scraped.

A reconcile only passes the status. The series of a deleted quorum disappear with it.
"""

from collections.abc import Iterator
from datetime import datetime

from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from quorum_operator.namespaced_name import NamespacedName
from quorum_operator.planner.conditions import BACKUP_CURRENT
from quorum_operator.status_crd import MetadataQuorumStatus, Phase

PLACE = ("namespace", "name")

_Repair = tuple[int, int, str]


class QuorumSeries(Collector):
    """The last status of each quorum as gauges, and its finished repairs."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        self._prefix = prefix
        self._statuses: dict[NamespacedName, MetadataQuorumStatus] = {}
        self._repairs: dict[NamespacedName, int] = {}
        self._counted: dict[NamespacedName, frozenset[_Repair]] = {}
        """Completed repairs in the last status, which contains only the latest ones."""
        self._repair_seconds = Histogram(
            f"{prefix}_repair_duration_seconds",
            "Time from the first sign of a failed disk until the number of voters is restored.",
            registry=registry,
            buckets=(2, 5, 10, 15, 20, 30, 45, 60, 120, 300, 600),
        )
        registry.register(self)

    def set_status(self, namespace: str, name: str, status: MetadataQuorumStatus) -> None:
        """Store the current status."""
        quorum = NamespacedName(namespace, name)
        self._statuses[quorum] = status
        done = {
            (each.id, each.incarnation, each.started_at): each.seconds
            for each in status.repairs
            if each.seconds is not None
        }
        # Those of the first status were completed earlier, and counted by the operator of that time.
        fresh = [done[each] for each in done.keys() - self._counted.get(quorum, done.keys())]
        for seconds in fresh:
            self._repair_seconds.observe(seconds or 0.0)
        self._repairs[quorum] = self._repairs.get(quorum, 0) + len(fresh)
        self._counted[quorum] = frozenset(done)

    def forget(self, namespace: str, name: str) -> None:
        """Forget a quorum that was deleted or is handled by another operator."""
        quorum = NamespacedName(namespace, name)
        self._statuses.pop(quorum, None)
        self._repairs.pop(quorum, None)
        self._counted.pop(quorum, None)

    def statuses(self) -> dict[NamespacedName, MetadataQuorumStatus]:
        """The last status of each quorum, by namespace and name."""
        return dict(self._statuses)

    def collect(self) -> Iterator[Metric]:
        """All metric families, including those without samples."""
        statuses = tuple(self._statuses.items())
        yield self._phases(statuses)
        yield self._conditions(statuses)
        yield from self._numbers(statuses)
        repairs = CounterMetricFamily(
            f"{self._prefix}_repairs",
            "Completed replacements of failed members.",
            labels=PLACE,
        )
        for quorum, count in tuple(self._repairs.items()):
            repairs.add_metric(quorum, count)
        yield repairs

    def _gauge(self, name: str, text: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"{self._prefix}_quorum_{name}", text, labels=(*PLACE, *labels))

    def _phases(self, statuses: tuple[tuple[NamespacedName, MetadataQuorumStatus], ...]) -> Metric:
        made = self._gauge("phase", "1 for the current phase of a quorum.", "phase")
        for quorum, status in statuses:
            for phase in Phase:
                made.add_metric((*quorum, phase.value), float(status.phase is phase))
        return made

    def _conditions(
        self, statuses: tuple[tuple[NamespacedName, MetadataQuorumStatus], ...]
    ) -> Metric:
        made = self._gauge("condition", "1 while a condition of a quorum is True.", "condition")
        for quorum, status in statuses:
            for each in status.conditions:
                made.add_metric((*quorum, each.type), float(each.status == "True"))
        return made

    def _numbers(
        self, statuses: tuple[tuple[NamespacedName, MetadataQuorumStatus], ...]
    ) -> Iterator[GaugeMetricFamily]:
        made = {name: self._gauge(name, text) for name, text in _NUMBERS.items()}
        for quorum, status in statuses:
            for name, value in _values(status):
                made[name].add_metric(quorum, value)
        yield from made.values()


_NUMBERS = {
    "failure_tolerance": "Number of further voters that may fail before the quorum is lost; no series while unknown.",
    "voters": "Size of the last confirmed voter set.",
    "ready_members": "Members that are ready.",
    "unhealthy_members": "Members with a problem: failed, unreachable or not ready.",
    "voter_lag_records": "Lag, in records, of the slowest voter that fetches.",
    "last_backup_time_seconds": "Time at which the newest successful backup finished; no series while there is none.",
    "backup_current": "1 while the last successful backup is recent enough, 0 while it is missing or overdue.",
    "update_failed": (
        "1 while an update is stopped because its canary failed, 0 while one is in progress or waits; otherwise no "
        "series."
    ),
    "certificate_renewal_time_seconds": (
        "Time at which the next member certificate is due for renewal; only with certificates."
    ),
}


def _values(status: MetadataQuorumStatus) -> Iterator[tuple[str, float]]:
    if status.failure_tolerance is not None:
        yield "failure_tolerance", status.failure_tolerance.now
    yield "voters", status.voters
    yield "ready_members", status.ready_replicas
    yield "unhealthy_members", sum(1 for each in status.members if each.condition is not None)
    lags = [each.lag for each in status.members if each.voter and each.lag is not None]
    if lags:
        yield "voter_lag_records", max(lags)
    if status.tls is not None and status.tls.renewal_at is not None:
        due = datetime.fromisoformat(status.tls.renewal_at).timestamp()
        yield "certificate_renewal_time_seconds", due
    if status.update is not None:
        yield "update_failed", float(status.update.failed is not None)
    if status.backup is not None:
        if status.backup.last_success_at is not None:
            at = datetime.fromisoformat(status.backup.last_success_at).timestamp()
            yield "last_backup_time_seconds", at
        current = (each for each in status.conditions if each.type == BACKUP_CURRENT)
        waits = any(each.status == "False" and each.reason != "FirstPending" for each in current)
        yield "backup_current", float(not waits)
