"""Handles the transactional batches of one producer for one partition one after the other, in the order in which they arrived.

Owns the order. A stock broker handles the next request of a connection after it has answered the previous one. Here requests are
pipelined, and the verification of a batch may take a while. A batch that overtakes another one is out of order, and its producer regards
this as final if the batch before it was appended after all. Does not depend on verification.
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial

Over = Callable[[], None]
Turn = Callable[[Over], None]
"""Handles a batch. Calls its argument once, when the outcome is known, possibly before it returns."""


@dataclass(slots=True)
class _Producer:
    """The waiting batches of one producer. `is_handling`: one of them is being handled; `is_looping`: `_go_on` is running."""

    waiting: deque[Turn] = field(default_factory=deque)
    is_handling: bool = False
    is_looping: bool = False


class ProducerTurns:
    """The waiting batches of all producers."""

    def __init__(self) -> None:
        self._producers: dict[Hashable, _Producer] = {}

    def is_busy(self, key: Hashable) -> bool:
        """Whether a batch of the producer is being handled, so that another one would wait."""
        return key in self._producers

    def take(self, key: Hashable, turn: Turn) -> None:
        """Handle a batch now, or after the ones of the same producer that arrived before."""
        producer = self._producers.setdefault(key, _Producer())
        producer.waiting.append(turn)
        self._go_on(key, producer)

    def _go_on(self, key: Hashable, producer: _Producer) -> None:
        """Handle batches until one of them waits for its outcome. Not recursive: there may be thousands."""
        if producer.is_looping:
            return
        producer.is_looping = True
        while producer.waiting and not producer.is_handling:
            producer.is_handling = True
            producer.waiting.popleft()(partial(self._over, key, producer))
        producer.is_looping = False
        if not producer.is_handling:
            del self._producers[key]

    def _over(self, key: Hashable, producer: _Producer) -> None:
        producer.is_handling = False
        self._go_on(key, producer)
