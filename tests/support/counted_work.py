"""The thread for work that takes long, which counts the pieces of work."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from quorum_node.server.listener.large_messages import LargeMessages

T = TypeVar("T")


class CountedWork(LargeMessages):
    """Created inside the loop."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())
        self.pieces = 0

    def run(
        self, owner: object, work: Callable[[], T], done: Callable[["Future[T]", float], None]
    ) -> None:
        """See `LargeMessages`."""
        self.pieces += 1
        super().run(owner, work, done)
