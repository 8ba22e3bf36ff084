"""Decodes and encodes large messages on a thread, so that commits don't wait for them.

A message with tens of thousands of elements takes tenths of a second. Python switches between threads every half a millisecond
(`process/main.py`), so the event loop continues meanwhile. Owns the thread, which all listeners share. Must not know messages: the work
has to be pure, over data that does not change.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from time import thread_time
from typing import TypeVar

from quorum_node.schema.primitives import Buffer
from quorum_node.server.ending.loop_calls import call_on_loop

_T = TypeVar("_T")

LARGE_MESSAGE_BYTES = 16 << 10
"""In bytes: smaller messages are decoded at once, which takes a few milliseconds at most."""
_PRODUCE = b"\x00\x00"
"""The API key of requests that are large because of records, which are not decoded."""


def may_take_long(frame: Buffer) -> bool:
    """Whether a request is decoded on the thread."""
    return len(frame) >= LARGE_MESSAGE_BYTES and bytes(frame[:2]) != _PRODUCE


class LargeMessages:
    """The thread and its queue; created inside the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread: ThreadPoolExecutor | None = None

    def run(self, work: Callable[[], _T], done: Callable[["Future[_T]", float], None]) -> None:
        """Do the work on the thread. `done` is called on the loop, with the result and the CPU time in seconds."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="large-messages")
        self._thread.submit(self._work, work, done)

    def close(self) -> None:
        """Drop the work that has not begun."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _work(self, work: Callable[[], _T], done: Callable[["Future[_T]", float], None]) -> None:
        made: Future[_T] = Future()
        began = thread_time()
        try:
            made.set_result(work())
        except Exception as error:
            made.set_exception(error)
        call_on_loop(self._loop, done, made, thread_time() - began)
