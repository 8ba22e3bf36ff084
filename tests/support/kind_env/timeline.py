"""The steps of a demo or a long test: printed with the elapsed time, and kept for the table at the end."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_LOOK_EVERY_S = 0.5
_REMIND_EVERY_S = 20.0


@dataclass(slots=True)
class Step:
    """One step; times in milliseconds of the monotonic clock, which the workload also uses.

    `watch`: a short description of the current state; each change is printed.
    """

    name: str
    start_ms: float
    end_ms: float = 0.0
    healthy_s: float | None = None
    note: str = ""
    watch: Callable[[], str] | None = None

    @property
    def duration_s(self) -> float:
        return (self.end_ms - self.start_ms) / 1000

    def mark_healthy(self) -> None:
        """Record that the quorum is healthy now; the step may continue."""
        self.healthy_s = (time.monotonic() * 1000 - self.start_ms) / 1000
        self.note = f"healthy after {self.healthy_s:.1f} s"


class Timeline:
    """Prints the steps and the awaited conditions; on a terminal the line is updated every second."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._begun = time.monotonic()
        self._live = sys.stderr.isatty()

    def say(self, text: str) -> None:
        clear = "\r\033[K" if self._live else ""
        print(f"{clear}[{self.elapsed_s:6.1f} s] {text}", file=sys.stderr, flush=True)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._begun

    @contextlib.contextmanager
    def step(self, name: str, awaiting: str = "") -> Iterator[Step]:
        """Announce a step, show its progress, and record its times."""
        step = Step(name, time.monotonic() * 1000)
        self.steps.append(step)
        self.say(f"{name} ..." + (f"  (awaiting {awaiting})" if awaiting else ""))
        over = threading.Event()
        reminder = threading.Thread(target=self._remind, args=(step, awaiting, over), daemon=True)
        reminder.start()
        try:
            yield step
        except BaseException:
            self.say(
                f"{name}: FAILED after {(time.monotonic() * 1000 - step.start_ms) / 1000:.1f} s"
            )
            raise
        finally:
            over.set()
            reminder.join()
            step.end_ms = time.monotonic() * 1000
        note = f": {step.note}" if step.note else ""
        self.say(f"{name}: done in {step.duration_s:.1f} s{note}")

    def _remind(self, step: Step, awaiting: str, over: threading.Event) -> None:
        shown, quiet_since = "", time.monotonic()
        while not over.wait(_LOOK_EVERY_S):
            news = _looked(step)
            if news and news != shown:
                shown, quiet_since = news, time.monotonic()
                self.say(f"    {news}")
            lasted = time.monotonic() - step.start_ms / 1000
            text = f"{step.name}: {lasted:.0f} s" + (f", awaiting {awaiting}" if awaiting else "")
            if self._live:
                print(f"\r\033[K  {text[:110]}", end="", file=sys.stderr, flush=True)
            elif time.monotonic() - quiet_since > _REMIND_EVERY_S:
                quiet_since = time.monotonic()
                self.say(f"    {text}")


def _looked(step: Step) -> str:
    if step.watch is None:
        return ""
    try:
        return step.watch()
    except Exception as error:  # only for the report; if it matters, the step itself fails
        return repr(error)


def table(headings: list[str], rows: list[list[str]]) -> str:
    """A table with columns of the necessary width; the caller pads numbers."""
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]

    def line(cells: list[str]) -> str:
        first, *rest = (
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join([first, *rest]).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(headings), rule, *(line(row) for row in rows)])
