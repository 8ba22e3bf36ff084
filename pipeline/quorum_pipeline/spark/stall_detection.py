"""Detects a query without progress: Spark waits for its processes without a limit or message.

Owns the time limits and messages. The caller defines progress, and passes times.
"""

from collections.abc import Callable

from quorum_pipeline.errors import PipelineError

TOLD_AFTER_SECONDS = 60.0
GIVEN_UP_AFTER_SECONDS = 1800.0
"""A single task reads some tens of megabytes: even a slow disk needs less time."""


class Standstill:
    """Detects that the work makes no progress. `say`: reports a line to the user; `now_s`: when the work began."""

    def __init__(self, say: Callable[[str], None], now_s: float) -> None:
        self._say = say
        self._seen: object = None
        self._since_s = self._reported_s = now_s

    def look(self, now_s: float, seen: object, where: Callable[[], str]) -> None:
        """Check progress; to be called repeatedly. `seen`: a value that changes with each step, None if there is nothing to do.
        `where`: describes what is awaited.

        Raises PipelineError after half an hour without a step.
        """
        if seen is None or seen != self._seen:
            self._seen, self._since_s, self._reported_s = seen, now_s, now_s
            return
        waited_s = now_s - self._since_s
        if waited_s >= GIVEN_UP_AFTER_SECONDS:
            raise PipelineError(
                f"given up after {waited_s:.0f} s without a step: {where()}. Incomplete parts are written again by the"
                " next run"
            )
        if now_s - self._reported_s >= TOLD_AFTER_SECONDS:
            self._reported_s = now_s
            self._say(f"no step for {waited_s:.0f} s: {where()}")
