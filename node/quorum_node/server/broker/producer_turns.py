"""Handles the transactional batches of one producer for one partition one after the other, in the order in which they arrived.

Owns the order. A stock broker handles the next request of a connection after it has answered the previous one. Here requests are
pipelined, and the verification of a batch may take a while. A batch that overtakes another one is out of order, and its producer regards
this as final if the batch before it was appended after all. Does not depend on verification.
"""

from collections import deque
from collections.abc import Callable, Hashable

Over = Callable[[], None]
Turn = Callable[[Over], None]
"""Handles a batch. Calls its argument once, when the outcome is known, possibly before it returns."""


class ProducerTurns:
    """The waiting batches of all producers."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[Turn]] = {}

    def is_busy(self, producer: Hashable) -> bool:
        """Whether a batch of the producer is being handled, so that another one would wait."""
        return producer in self._waiting

    def take(self, producer: Hashable, turn: Turn) -> None:
        """Handle a batch now, or after the ones of the same producer that arrived before."""
        waiting = self._waiting.get(producer)
        if waiting is not None:
            waiting.append(turn)
            return
        self._waiting[producer] = deque((turn,))
        self._go_on(producer)

    def _go_on(self, producer: Hashable) -> None:
        """Handle batches until one of them waits for its outcome. Not recursive: there may be thousands."""
        waiting = self._waiting[producer]
        while waiting:
            is_within, is_over = True, False

            def over() -> None:
                nonlocal is_over
                is_over = True
                if not is_within:
                    self._go_on(producer)

            waiting.popleft()(over)
            is_within = False
            if not is_over:
                return
        del self._waiting[producer]
