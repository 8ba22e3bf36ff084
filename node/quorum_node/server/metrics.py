"""What the node counts, and its Prometheus text.

The hot path adds to plain integers; values are collected when somebody asks. Every metric is
declared once here, with its help text: `docs/metrics.md` is generated from `SPECS`.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric: `label` is the name of its only label, if it has one."""

    name: str
    kind: Kind
    help: str
    label: str | None = None


P = "metadata_quorum_"
SPECS = (
    MetricSpec(P + "leader_id", "gauge", "Node id of the known leader, -1 when unknown"),
    MetricSpec(P + "leader_epoch", "gauge", "Current leader epoch"),
    MetricSpec(P + "voted_id", "gauge", "Node id voted for in this epoch, -1 for none"),
    MetricSpec(P + "role", "gauge", "1 for the role the replica is in, 0 for the others", "role"),
    MetricSpec(P + "is_voter", "gauge", "1 when this replica is in the latest voter set"),
    MetricSpec(P + "voters", "gauge", "Number of voters in the latest voter set"),
    MetricSpec(P + "high_watermark", "gauge", "Offset up to which records are committed"),
    MetricSpec(P + "log_end_offset", "gauge", "End offset of the local log"),
    MetricSpec(P + "durable_end_offset", "gauge", "End offset of what is fsynced locally"),
    MetricSpec(P + "applied_offset", "gauge", "Offset up to which records are applied"),
    MetricSpec(P + "formed", "gauge", "1 once all initial voters have joined"),
    MetricSpec(P + "disk_free_bytes", "gauge", "Free bytes on the log's filesystem"),
    MetricSpec(P + "disk_low", "gauge", "1 while appends are refused below the reserve"),
    MetricSpec(P + "start_time_seconds", "gauge", "Wall-clock time at which the process started"),
    MetricSpec(P + "connections", "gauge", "Open connections on the Kafka listener"),
    MetricSpec(P + "requests_in_flight", "gauge", "Requests received and not answered yet"),
    MetricSpec(P + "requests", "counter", "Requests received on the Kafka listener", "api"),
    MetricSpec(
        P + "malformed_requests",
        "counter",
        "Connections closed because of bytes that are no request, by listener",
        "listener",
    ),
    MetricSpec(P + "peer_requests", "counter", "Requests sent to other replicas", "api"),
    MetricSpec(P + "peer_failures", "counter", "Requests to other replicas that failed", "reason"),
    MetricSpec(P + "elections_won", "counter", "Times this replica became leader"),
    MetricSpec(P + "proposals", "counter", "Client appends, by outcome", "outcome"),
    MetricSpec(P + "reads", "counter", "Linearizable reads, by outcome", "outcome"),
    MetricSpec(P + "records_appended", "counter", "Records proposed by clients of this leader"),
    MetricSpec(P + "fetched_bytes", "counter", "Bytes of records received from leaders"),
    MetricSpec(P + "commit_latency_seconds", "histogram", "Append to commit, on the leader"),
    MetricSpec(P + "flush_latency_seconds", "histogram", "Time that one fsync of the log took"),
    MetricSpec(P + "flushes", "counter", "fsyncs of the log"),
)
_BY_NAME = {spec.name.removeprefix(P): spec for spec in SPECS}

_BOUNDS_SECONDS = (
    0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
)  # fmt: skip


class Histogram:
    """Counts per bucket; cheap to add to."""

    __slots__ = ("counts", "total_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS_SECONDS) + 1)
        self.total_seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(_BOUNDS_SECONDS, seconds)] += 1
        self.total_seconds += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by upper bound, as Prometheus wants them."""
        cumulative, rows = 0, []
        for bound, count in zip((*map(str, _BOUNDS_SECONDS), "+Inf"), self.counts, strict=True):
            cumulative += count
            rows.append((bound, float(cumulative)))
        return rows


Gauges = Callable[[], dict[str, float | dict[str, float]]]


class Metrics:
    """Counters and histograms of one process. `gauges` is asked at scrape time."""

    def __init__(self) -> None:
        self.counters: dict[str, int] = {}
        self.labelled: dict[str, dict[str, int]] = {}
        self.histograms: dict[str, Histogram] = {}
        self.gauges: Gauges = dict
        self.started_at = time.time()
        for name, spec in _BY_NAME.items():
            if spec.kind == "histogram":
                self.histograms[name] = Histogram()
            elif spec.kind == "counter" and spec.label:
                self.labelled[name] = {}
            elif spec.kind == "counter":
                self.counters[name] = 0

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter that has no label."""
        self.counters[name] += amount

    def count_labelled(self, name: str, label: str, amount: int = 1) -> None:
        """Add to one label's counter."""
        values = self.labelled[name]
        values[label] = values.get(label, 0) + amount

    def observe(self, name: str, seconds: float) -> None:
        """Add a duration to a histogram."""
        self.histograms[name].observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """For prometheus_client: every metric that has a value."""
        gauges = {**self.gauges(), "start_time_seconds": self.started_at}
        for name, spec in _BY_NAME.items():
            if spec.kind == "histogram":
                histogram = self.histograms[name]
                family = HistogramMetricFamily(spec.name, spec.help)
                family.add_metric([], histogram.buckets(), histogram.total_seconds)
                yield family
            elif spec.kind == "counter":
                yield self._counter(name, spec)
            elif name in gauges:
                yield _gauge(spec, gauges[name])

    def render(self) -> bytes:
        """Prometheus text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)

    def _counter(self, name: str, spec: MetricSpec) -> Metric:
        if spec.label is None:
            return CounterMetricFamily(spec.name, spec.help, value=self.counters[name])
        family = CounterMetricFamily(spec.name, spec.help, labels=[spec.label])
        for label, value in sorted(self.labelled[name].items()):
            family.add_metric([label], value)
        return family


def _gauge(spec: MetricSpec, value: float | dict[str, float]) -> Metric:
    if isinstance(value, dict):
        family = GaugeMetricFamily(spec.name, spec.help, labels=[spec.label or "name"])
        for label, number in value.items():
            family.add_metric([label], number)
        return family
    return GaugeMetricFamily(spec.name, spec.help, value=value)


def markdown() -> str:
    """The text of docs/metrics.md."""
    rows = [
        "# Metrics",
        "",
        "Served by every node as Prometheus text on `GET /metrics` of the admin listener.",
        "Generated from `node/quorum_node/server/metrics.py`; a test keeps the two equal.",
        "",
        "| name | kind | label | meaning |",
        "|---|---|---|---|",
    ]
    for spec in SPECS:
        name = spec.name + ("_total" if spec.kind == "counter" else "")
        rows.append(f"| `{name}` | {spec.kind} | {spec.label or ''} | {spec.help} |")
    return "\n".join(rows) + "\n"
