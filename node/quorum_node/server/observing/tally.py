"""Counters, sums of durations and histograms, and how much they grew in the last seconds.

Owns the window over all of them. The hot path adds to plain numbers, without a lock and without a clock; the window is a ring of copies
of the sums, taken every few seconds. Single-threaded: everything runs on the loop. Must not know metric names.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable

BOUNDS_SECONDS = (
    0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
)  # fmt: skip
MAX_LABELS = 200
"""Maximum number of values of one label; others are counted together. Senders choose the ids on the wire."""
OTHERS = "others"
Key = tuple[str, Hashable]
"""Name and label value; None without a label."""


class Durations:
    """Number and sum of durations."""

    __slots__ = ("count", "total_seconds")

    def __init__(self) -> None:
        self.count = 0
        self.total_seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.count += 1
        self.total_seconds += seconds


class Histogram(Durations):
    """Also counts per bucket, and keeps the largest duration since the last `take_max`."""

    __slots__ = ("counts", "max_seconds")

    def __init__(self) -> None:
        super().__init__()
        self.counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self.max_seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.count += 1
        self.total_seconds += seconds
        self.counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        if seconds > self.max_seconds:
            self.max_seconds = seconds

    def take_max(self) -> float:
        """The largest duration since the last call."""
        seconds, self.max_seconds = self.max_seconds, 0.0
        return seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by upper bound, in the form of Prometheus."""
        cumulative, rows = 0, []
        for bound, count in zip((*map(str, BOUNDS_SECONDS), "+Inf"), self.counts, strict=True):
            cumulative += count
            rows.append((bound, float(cumulative)))
        return rows


class Tally:
    """Counters, durations and histograms by name; some also by label value."""

    def __init__(self) -> None:
        self.counters: dict[str, float] = {}
        self.labelled: dict[str, dict[Hashable, float]] = {}
        self.durations: dict[str, dict[Hashable, Durations]] = {}
        self.histograms: dict[str, Histogram] = {}

    def count(self, name: str, amount: float = 1) -> None:
        """Add to a counter that has no label."""
        self.counters[name] += amount

    def count_labelled(self, name: str, label: Hashable, amount: float = 1) -> None:
        """Add to one label's counter."""
        values = self.labelled[name]
        if label not in values and len(values) >= MAX_LABELS:
            label = OTHERS
        values[label] = values.get(label, 0) + amount

    def observe(self, name: str, seconds: float) -> None:
        """Add a duration to a histogram."""
        self.histograms[name].add(seconds)

    def durations_of(self, name: str, label: Hashable) -> Durations:
        """The sum of durations with this label; frequent callers should keep it."""
        values = self.durations[name]
        found = values.get(label)
        if found is None:
            if len(values) >= MAX_LABELS:
                label = OTHERS
            found = values.setdefault(label, Durations())
        return found

    def sums(self) -> dict[Key, tuple[float, float]]:
        """(number, seconds or amount) of everything, by name and label."""
        found: dict[Key, tuple[float, float]] = {}
        for name, amount in self.counters.items():
            found[name, None] = (amount, amount)
        for name, by_label in self.labelled.items():
            for label, amount in by_label.items():
                found[name, label] = (amount, amount)
        for name, by_durations in self.durations.items():
            for label, each in by_durations.items():
                found[name, label] = (each.count, each.total_seconds)
        for name, histogram in self.histograms.items():
            found[name, None] = (histogram.count, histogram.total_seconds)
        return found


class Window:
    """What a tally gained in the last `steps` steps and the current one."""

    def __init__(self, tally: Tally, steps: int, now: float) -> None:
        self._tally = tally
        self._copies: deque[tuple[float, dict[Key, tuple[float, float]]]] = deque(
            [(now, tally.sums())], maxlen=steps
        )
        self._largest: deque[dict[str, float]] = deque(maxlen=steps)

    def step(self, now: float) -> None:
        """A step is over."""
        self._copies.append((now, self._tally.sums()))
        histograms = self._tally.histograms.items()
        self._largest.append({name: each.take_max() for name, each in histograms})

    def gains(self, now: float) -> tuple[float, dict[Key, tuple[float, float]]]:
        """Length of the window in seconds, and how much each sum grew in it."""
        began, before = self._copies[0]
        grown = {
            key: (number - before.get(key, (0, 0))[0], total - before.get(key, (0, 0))[1])
            for key, (number, total) in self._tally.sums().items()
        }
        return max(now - began, 1e-9), grown

    def largest(self, name: str) -> float:
        """The largest duration of a histogram in the window."""
        now_largest = self._tally.histograms[name].max_seconds
        return max(now_largest, *(each.get(name, 0.0) for each in self._largest), 0.0)
