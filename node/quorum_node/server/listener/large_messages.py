"""Decodes and encodes large messages on a thread, so that commits don't wait for them.

A message with tens of thousands of elements takes tenths of a second. Python switches between threads every half a millisecond
(`process/main.py`), so the event loop continues meanwhile. Owns the thread, which all listeners share. Must not know messages: the work
has to be pure, over data that does not change.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Lock
from time import thread_time
from typing import TypeVar

from quorum_node.protocol.apis import FEW_ELEMENTS
from quorum_node.schema.primitives import Buffer
from quorum_node.server.ending.loop_calls import call_on_loop

_T = TypeVar("_T")

LARGE_MESSAGE_BYTES = 4 << 10
"""In bytes: smaller messages are decoded at once, which takes up to two milliseconds."""
LARGE_FETCH_BYTES = 16 << 10
"""The same for fetches, which are frequent, and whose elements are large."""
_PRODUCE, _FETCH = b"\x00\x00", b"\x00\x01"
"""API keys. A Produce request is large because of records, which are not decoded."""


def may_take_long(frame: Buffer, *, of_voter: bool = False) -> bool:
    """Whether a request is decoded on the thread. `of_voter`: not those about the quorum, which have few elements."""
    if len(frame) < LARGE_MESSAGE_BYTES:
        return False
    key = bytes(frame[:2])
    if of_voter and int.from_bytes(key, "big") in FEW_ELEMENTS:
        return False
    return key != _PRODUCE and (key != _FETCH or len(frame) >= LARGE_FETCH_BYTES)


class LargeMessages:
    """The thread and its queues, one for each owner; created inside the loop. Owners take turns: one that sends many large requests does
    not delay those of others by more than one piece of work.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread: ThreadPoolExecutor | None = None
        self._is_closed = False
        self._lock = Lock()
        self._queues: dict[object, deque[Callable[[], None]]] = {}
        """By owner, in the order of their turns."""

    def run(
        self, owner: object, work: Callable[[], _T], done: Callable[["Future[_T]", float], None]
    ) -> None:
        """Do the work on the thread. `done` is called on the loop, with the result and the CPU time in seconds.

        Dropped once it is closed: no connection waits for an answer any more.
        """
        if self._is_closed:
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="large-messages")
        with self._lock:
            self._queues.setdefault(owner, deque()).append(partial(self._work, work, done))
        self._thread.submit(self._take_turn)

    def close(self) -> None:
        """Drop the work that has not begun."""
        self._is_closed = True
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _take_turn(self) -> None:
        with self._lock:
            owner = next(iter(self._queues))
            queue = self._queues.pop(owner)
            piece = queue.popleft()
            if queue:
                self._queues[owner] = queue
        piece()

    def _work(self, work: Callable[[], _T], done: Callable[["Future[_T]", float], None]) -> None:
        made: Future[_T] = Future()
        began = thread_time()
        try:
            made.set_result(work())
        except Exception as error:
            made.set_exception(error)
        call_on_loop(self._loop, done, made, thread_time() - began)
