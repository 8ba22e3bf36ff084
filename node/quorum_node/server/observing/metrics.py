"""The node's metrics and their Prometheus text.

One `Metrics` per process and, within it, one `PartitionMetrics` per hosted replica. Gauges are read at scrape time. The metrics are
declared in `metric_specs`, counting is in `tally`; docs/architecture.md explains why prometheus_client only writes the text.
"""

import time
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.metrics_core import Metric

from quorum_node.server.observing.metric_specs import (
    BY_NAME,
    PARTITION_LABEL,
    WINDOW_SECONDS,
    Derived,
    MetricSpec,
)
from quorum_node.server.observing.tally import Histogram, Tally, Window

STEP_SECONDS = 5.0
"""In seconds: interval of the calls of `Metrics.step`."""
Gauges = Callable[[], dict[str, float | dict[str, float]]]


class Counted(Tally):
    """A tally with the metrics of the process, or of one partition, and its window."""

    def __init__(self, *, of_partition: bool, now: float) -> None:
        super().__init__()
        self._gauges: list[Gauges] = []
        for name, spec in BY_NAME.items():
            if spec.partition is not of_partition:
                continue
            if spec.kind == "histogram":
                self.histograms[name] = Histogram()
            elif spec.kind == "summary":
                self.durations[name] = {}
            elif spec.kind == "counter" and spec.label:
                self.labelled[name] = {}
            elif spec.kind == "counter":
                self.counters[name] = 0
        self.window = Window(self, int(WINDOW_SECONDS / STEP_SECONDS), now)

    def ask_at_scrape(self, gauges: Gauges) -> None:
        """Set the function that reads the gauges; a dict has one value for each label value."""
        self._gauges.append(gauges)

    def gauges(self) -> dict[str, float | dict[str, float]]:
        """The present values."""
        return {name: value for each in self._gauges for name, value in each().items()}


class PartitionMetrics(Counted):
    """The metrics of one replica."""

    def __init__(self, now: float) -> None:
        super().__init__(of_partition=True, now=now)


class Metrics(Counted):
    """The metrics of the process, and of every replica in it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(of_partition=False, now=clock())
        self.started_at = time.time()
        self.partitions: dict[int, PartitionMetrics] = {}
        self._label_text: Callable[[Hashable], str] = str
        self._clock = clock
        self._busy_before = time.thread_time()

    def write_labels_by(self, text: Callable[[Hashable], str]) -> None:
        """Set how label values are written; values with the same text are added up."""
        self._label_text = text

    def partition(self, number: int) -> PartitionMetrics:
        """Metrics of the replica of that partition."""
        if number not in self.partitions:
            self.partitions[number] = PartitionMetrics(self._clock())
        return self.partitions[number]

    def step(self) -> None:
        """Call on the loop's thread, every STEP_SECONDS."""
        self._measure_loop()
        now = self._clock()
        for counted in (self, *self.partitions.values()):
            counted.window.step(now)

    def render(self) -> bytes:
        """Prometheus text format; on the loop's thread."""
        self._measure_loop()
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """For prometheus_client: all metrics that have a value."""
        now = self._clock()
        node = [_Scrape((), self, now, self._label_text)]
        node[0].gauges["start_time_seconds"] = self.started_at
        replicas = [
            _Scrape((str(number),), each, now, self._label_text)
            for number, each in self.partitions.items()
        ]
        for name, spec in BY_NAME.items():
            family = _family(spec)
            for scrape in replicas if spec.partition else node:
                scrape.add(family, name, spec)
            if family.samples:
                yield family

    def _measure_loop(self) -> None:
        busy = time.thread_time()
        self.counters["loop_busy_seconds"] += busy - self._busy_before
        self._busy_before = busy


class _Scrape:
    """One scrape of a tally."""

    def __init__(
        self, labels: tuple[str, ...], counted: Counted, now: float, text: Callable[[Hashable], str]
    ) -> None:
        self._labels = labels
        self._counted = counted
        self._text = text
        self.gauges = counted.gauges()
        self._sums = counted.sums()
        self._seconds, self._gains = counted.window.gains(now)

    def add(self, family: Any, name: str, spec: MetricSpec) -> None:
        """Add the samples of one metric."""
        if spec.kind == "histogram":
            histogram = self._counted.histograms[name]
            family.add_metric(self._labels, histogram.buckets(), histogram.total_seconds)
        elif spec.kind == "counter":
            for label, (amount, _) in self._by_label(name, self._sums).items():
                family.add_metric((*self._labels, *label), amount)
        elif spec.kind == "summary":
            for label, (count, total) in self._by_label(name, self._sums).items():
                family.add_metric((*self._labels, *label), count, total)
        elif spec.derived is not None:
            for label, value in self._derive(spec).items():
                family.add_metric((*self._labels, *label), value)
        elif name in self.gauges:
            gauge = self.gauges[name]
            if not isinstance(gauge, dict):
                family.add_metric(self._labels, gauge)
                return
            for text, number in gauge.items():
                family.add_metric((*self._labels, text), number)

    def _derive(self, spec: MetricSpec) -> dict[tuple[str, ...], float]:
        if spec.derived is Derived.MAX:
            return {(): self._counted.window.largest(spec.source)}
        gains = self._by_label(spec.source, self._gains)
        if spec.derived is Derived.RATE:
            return {label: number / self._seconds for label, (number, _) in gains.items()}
        if spec.derived is Derived.AVERAGE:
            return {
                label: total / number if number else 0.0 for label, (number, total) in gains.items()
            }
        per_second = sum(total for _, total in gains.values()) / self._seconds
        return {(): max(0.0, 1 - per_second) if spec.derived is Derived.IDLE else per_second}

    def _by_label(
        self, name: str, sums: dict[tuple[str, Hashable], tuple[float, float]]
    ) -> dict[tuple[str, ...], tuple[float, float]]:
        found: dict[tuple[str, ...], tuple[float, float]] = {}
        for (each, label), (number, total) in sums.items():
            if each == name:
                text = () if label is None else (self._text(label),)
                before = found.get(text, (0.0, 0.0))
                found[text] = (before[0] + number, before[1] + total)
        return dict(sorted(found.items()))


def _family(spec: MetricSpec) -> Any:
    families: dict[str, Any] = {
        "counter": CounterMetricFamily,
        "gauge": GaugeMetricFamily,
        "histogram": HistogramMetricFamily,
        "summary": SummaryMetricFamily,
    }
    labels = [each for each in (PARTITION_LABEL * spec.partition, spec.label) if each]
    return families[spec.kind](spec.name, spec.help, labels=labels)
