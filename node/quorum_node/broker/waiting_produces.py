"""Produce requests that wait until their batches are written or replicated. PURE.

Owns the awaited offsets and deadlines. Must not know how an offset is reached.
"""

from dataclasses import dataclass

from quorum_node.broker.events import Produced

ACKS_ALL = -1


@dataclass(frozen=True, slots=True)
class _Waiting:
    request_id: int
    base_offset: int
    end_offset: int
    deadline_ms: float


class WaitingProduces:
    """Requests without acks=all wait for the leader's own writer only."""

    __slots__ = ("_for_all", "_for_writer")

    def __init__(self) -> None:
        self._for_writer: list[_Waiting] = []
        self._for_all: list[_Waiting] = []

    def add(self, event: Produced, base_offset: int, end_offset: int, now_ms: float) -> None:
        """Add a request."""
        waiting = self._for_all if event.acks == ACKS_ALL else self._for_writer
        deadline_ms = now_ms + event.timeout_ms
        waiting.append(_Waiting(event.request_id, base_offset, end_offset, deadline_ms))

    def written(self, end_offset: int) -> list[tuple[int, int]]:
        """(request id, base offset) of completed requests without acks=all; they are removed."""
        done = [each for each in self._for_writer if each.end_offset <= end_offset]
        if done:
            self._for_writer = [each for each in self._for_writer if each.end_offset > end_offset]
        return [(each.request_id, each.base_offset) for each in done]

    def replicated(self, high_watermark: int) -> list[tuple[int, int]]:
        """(request id, base offset) of completed requests with acks=all; they are removed."""
        done = [each for each in self._for_all if each.end_offset <= high_watermark]
        if done:
            self._for_all = [each for each in self._for_all if each.end_offset > high_watermark]
        return [(each.request_id, each.base_offset) for each in done]

    def overdue(self, now_ms: float) -> list[int]:
        """Requests with acks=all whose timeout has passed; they are removed."""
        late = [each.request_id for each in self._for_all if each.deadline_ms <= now_ms]
        if late:
            self._for_all = [each for each in self._for_all if each.deadline_ms > now_ms]
        return late

    def all(self) -> list[int]:
        """All requests; they are removed."""
        everyone = [each.request_id for each in (*self._for_writer, *self._for_all)]
        self._for_writer, self._for_all = [], []
        return everyone
