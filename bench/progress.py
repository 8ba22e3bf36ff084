"""The progress output of a long run: the current part, the elapsed time, and an estimate of the remaining time."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class Progress:
    """Parts repeated in rounds. `expected`: seconds of each part, replaced by the measured duration."""

    def __init__(self, expected: Mapping[str, float], rounds: int) -> None:
        self._expected = dict(expected)
        self._to_come = dict.fromkeys(expected, rounds)
        self._rounds = rounds
        self._started = time.monotonic()

    @contextmanager
    def part(self, name: str, number: int) -> Iterator[None]:
        """Report the start of a part; `number` counts rounds from 0."""
        print(
            f"{time.strftime('%H:%M:%S')} {name}, round {number + 1} of {self._rounds}:"
            f" {_minutes(time.monotonic() - self._started)} gone,"
            f" about {_minutes(self.left_seconds())} left",
            flush=True,
        )
        began = time.monotonic()
        yield
        self._expected[name] = time.monotonic() - began
        self._to_come[name] -= 1

    def left_seconds(self) -> float:
        """Remaining seconds of all parts, including the one that begins."""
        return sum(self._expected[name] * count for name, count in self._to_come.items())


def _minutes(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d} min"
