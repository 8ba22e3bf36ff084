"""A thread for the lease: a busy operator renews it in time, and one whose event loop is blocked leaves it to others.

Owns the thread and the sign of life of the main event loop. What is done about the lease, `leadership.py` says.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

from quorum_operator.kube.client import KubeApi
from quorum_operator.leadership import Leadership, Place, clock

BEAT_S = 1.0
BLOCKED_S = 20.0
"""A main loop that has not come round for so long counts as blocked; less may be a machine that is short of CPU."""


class LeaseThread:
    """`api` is used by the thread alone: a connection belongs to one event loop."""

    def __init__(self, api: KubeApi, place: Place, identity: str) -> None:
        self._api = api
        self._beat_at = clock()
        self.leadership = Leadership(api, place, identity, works=self._comes_round)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lease", daemon=True)
        self._beating: asyncio.Task[None] | None = None
        self._striving: Future[None] | None = None

    def start(self, gained: Callable[[], None], lost: Callable[[], None]) -> None:
        """Strive for the lease; both are called in the running event loop, in turns."""
        main = asyncio.get_running_loop()
        self._beating = main.create_task(self._beat(), name="sign of life")
        self._thread.start()
        work = self.leadership.run(
            lambda: _call(main, gained),
            lambda: _call(main, lost),
        )
        self._striving = asyncio.run_coroutine_threadsafe(work, self._loop)

    async def stop(self) -> None:
        """Give the lease up. Call it when all work has ended."""
        if self._striving is None or self._beating is None:
            self._loop.close()
            return
        self._beating.cancel()
        self._striving.cancel()
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._end(), self._loop))
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)
        self._loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)
        await self.leadership.give_up()
        await self._api.__aexit__(None, None, None)

    async def _beat(self) -> None:
        while True:
            self._beat_at = clock()
            await asyncio.sleep(BEAT_S)

    def _comes_round(self) -> bool:
        return clock() - self._beat_at < BLOCKED_S


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """In that loop, unless it has ended."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(function)
