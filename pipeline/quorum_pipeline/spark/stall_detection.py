"""Detects a query without progress: Spark waits for its processes without a limit or message.

Owns the time limits and messages. The caller defines progress, and passes times.
"""

from collections.abc import Callable

from quorum_pipeline.errors import PipelineError

REPORT_AFTER_SECONDS = 60.0
TIMEOUT_SECONDS = 1800.0
"""A single task reads some tens of megabytes: even a slow disk needs less time."""


class StallDetector:
    """Detects that the work makes no progress. `report`: reports a line to the user; `now_s`: when the work began."""

    def __init__(self, report: Callable[[str], None], now_s: float) -> None:
        self._report = report
        self._progress: object = None
        self._since_s = self._reported_s = now_s

    def check(self, now_s: float, progress: object, where: Callable[[], str]) -> None:
        """Check for a stall; to be called repeatedly. `progress`: a value that changes with each step, None if there is nothing to do.
        `where`: describes what is awaited.

        Raises PipelineError after half an hour without a step.
        """
        if progress is None or progress != self._progress:
            self._progress, self._since_s, self._reported_s = progress, now_s, now_s
            return
        waited_s = now_s - self._since_s
        if waited_s >= TIMEOUT_SECONDS:
            raise PipelineError(
                f"given up after {waited_s:.0f} s without a step: {where()}. Incomplete parts are written again by the"
                " next run"
            )
        if now_s - self._reported_s >= REPORT_AFTER_SECONDS:
            self._reported_s = now_s
            self._report(f"no step for {waited_s:.0f} s: {where()}")
