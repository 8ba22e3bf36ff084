"""The API server's clock, as its answers tell it.

Whatever the operator compares with a time that it reads in Kubernetes, or writes there for another operator, is of this
clock: its own may be wrong by minutes, and may be set while it runs.
"""

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

RESOLUTION_S = 1.0
"""The Date header tells full seconds."""


class ServerClock:
    """Reads the Date of answers. `monotonic` measures the time in between; `wall` serves until there was an answer."""

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
        """To be handed to `told` with the answer to the request that begins now."""
        return self._monotonic()

    def told(self, date: str | None, begun: float) -> None:
        """An answer with this Date header has come. A malformed one says nothing."""
        try:
            at = parsedate_to_datetime(date or "").timestamp()
        except (TypeError, ValueError):
            return
        low, high = at - self._monotonic(), at + RESOLUTION_S - begun
        # Within what the answer allows nothing moves: a second's rounding must not shake the clock.
        known = (low + high) / 2 if self._offset is None else self._offset
        self._offset = min(max(known, low), high)
