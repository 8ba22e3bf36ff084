"""Handles the transactional batches of one producer for one partition one after the other, in the order in which they arrived.

Owns the order. A stock broker handles the next request of a connection after it has answered the previous one. Here requests are
pipelined, and the verification of a batch may take a while. A batch that overtakes another one is out of order, and its producer regards
this as final if the batch before it was appended after all. Does not depend on verification.
"""

from collections import deque
from collections.abc import Callable, Hashable
from functools import partial

Over = Callable[[], object]
Turn = Callable[[Over], None]
"""Handles a batch. Calls its argument once, when the outcome is known, possibly before it returns."""


class _Producer:
    """The batches of one producer. `idle`: called when none is left."""

    def __init__(self, idle: Over) -> None:
        self._idle = idle
        self._waiting: deque[Turn] = deque()
        self._is_handling = False
        self._is_looping = False

    def take(self, turn: Turn) -> None:
        """Handle a batch now, or after the ones that arrived before."""
        self._waiting.append(turn)
        self._go_on()

    def _go_on(self) -> None:
        """Handle batches until one of them waits for its outcome. Not recursive: there may be thousands."""
        if self._is_looping:
            return
        self._is_looping = True
        while self._waiting and not self._is_handling:
            self._is_handling = True
            self._waiting.popleft()(self._over)
        self._is_looping = False
        if not self._is_handling:
            self._idle()

    def _over(self) -> None:
        self._is_handling = False
        self._go_on()


class ProducerTurns:
    """The waiting batches of all producers."""

    def __init__(self) -> None:
        self._producers: dict[Hashable, _Producer] = {}

    def is_busy(self, key: Hashable) -> bool:
        """Whether a batch of the producer is being handled, so that another one would wait."""
        return key in self._producers

    def take(self, key: Hashable, turn: Turn) -> None:
        """Handle a batch now, or after the ones of the same producer that arrived before."""
        producer = self._producers.get(key)
        if producer is None:
            producer = self._producers[key] = _Producer(partial(self._producers.pop, key))
        producer.take(turn)
