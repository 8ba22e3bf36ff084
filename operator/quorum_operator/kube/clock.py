"""The API server's clock, from the Date header of its answers.

All times that are compared with times in Kubernetes, or written there, come from this clock, because the operator's
own clock may be wrong or be changed while it runs.
"""

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

RESOLUTION_S = 1.0
"""Resolution of the Date header."""


class ServerClock:
    """Reads the Date header of answers. `monotonic` measures the time in between; `wall` is used before the first
    answer.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._monotonic, self._wall = monotonic, wall
        self._offset: float | None = None

    def now(self) -> float:
        """Seconds since 1970."""
        return self._wall() if self._offset is None else self._monotonic() + self._offset

    def begin(self) -> float:
        """Start time of a request, for `observe`."""
        return self._monotonic()

    def observe(self, date: str | None, begun: float) -> None:
        """Process the Date header of an answer. A malformed one is ignored."""
        try:
            at = parsedate_to_datetime(date or "").timestamp()
        except (TypeError, ValueError):
            return
        low, high = at - self._monotonic(), at + RESOLUTION_S - begun
        # Within the precision of the answer (one second) the offset does not change.
        known = (low + high) / 2 if self._offset is None else self._offset
        self._offset = min(max(known, low), high)
