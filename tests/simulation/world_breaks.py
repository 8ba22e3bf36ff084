"""Code that works only if no clock is changed and answers arrive in order.

Same shape as `breaks.py`. A docstring says what is broken and, behind "Would:", what that would do.
"""

from collections.abc import Callable

import pytest

from quorum_node.raft import fetch_following
from quorum_node.records.batches import PREFIX_BYTES, Batch, read_header
from quorum_simulation.clock import Clock

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def time_by_the_time_of_day(patch: Patch) -> None:
    """Timeouts are measured by the wall clock.

    Would: wait a day for a lost leader, after the clock was set back.
    """
    real = Clock.monotonic_ms
    patch.setattr(Clock, "monotonic_ms", lambda clock: real(clock) + clock.wall_offset_ms)


def take_records_unchecked(patch: Patch) -> None:
    """A follower appends what its leader's answer holds without comparing checksums.

    Would: write damaged records into its log, and serve them later.
    """

    def unchecked(records: bytes) -> tuple[list[Batch], int]:
        view, position, batches = memoryview(records), 0, []
        while len(view) - position > PREFIX_BYTES:
            header = read_header(view, position)
            end = position + header.size_bytes
            if end > len(view):
                break
            batches.append(Batch(header, view[position:end]))
            position = end
        return batches, len(view) - position

    patch.setattr(fetch_following, "split_batches", unchecked)


BY_SIMULATION: tuple[Break, ...] = (time_by_the_time_of_day, take_records_unchecked)
FAULTS_FOR: dict[Break, frozenset[str]] = {
    time_by_the_time_of_day: frozenset({"wall clock", "crash leader"}),
    take_records_unchecked: frozenset({"damaged answers"}),
}
"""No other kind of fault shows them."""
