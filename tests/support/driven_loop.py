"""An event loop and its clock, driven by a test: callbacks run when the test says so."""

from collections.abc import Callable


class DrivenLoop:
    """The part of a loop that turns of connections need. Times in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.soon: list[Callable[[], None]] = []
        self.later: list[tuple[float, Callable[[], None]]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.later.append((self.now + delay, callback))

    def clock(self) -> float:
        return self.now

    def run_due(self) -> bool:
        """Call the callbacks that are due, once; returns whether there were any."""
        due = [each for each in self.later if each[0] <= self.now]
        self.later = [each for each in self.later if each[0] > self.now]
        callbacks, self.soon = self.soon + [each for _, each in due], []
        for callback in callbacks:
            callback()
        return bool(callbacks)
