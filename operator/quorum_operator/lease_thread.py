"""Renews the lease in a separate thread, so that a busy operator renews in time and one with a blocked event loop
loses it.

Owns the thread and the liveness check of the main event loop. `leadership.py` has the rules.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

from quorum_operator.kube.client import KubeApi
from quorum_operator.leadership import Leadership, clock
from quorum_operator.namespaced_name import NamespacedName

BEAT_S = 1.0
BLOCKED_S = 20.0
"""Time after which the main loop counts as blocked; shorter delays may be a lack of CPU."""


class LeaseThread:
    """The thread. Only it uses `api`, because a connection belongs to one event loop."""

    def __init__(self, api: KubeApi, lease: NamespacedName, identity: str) -> None:
        self._api = api
        self._beat_at = clock()
        self.leadership = Leadership(api, lease, identity, works=self._comes_round)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lease", daemon=True)
        self._beating: asyncio.Task[None] | None = None
        self._striving: Future[None] | None = None

    def start(self, gained: Callable[[], None], lost: Callable[[], None]) -> None:
        """Start leader election; the callbacks run in the current event loop, alternately."""
        main = asyncio.get_running_loop()
        self._beating = main.create_task(self._beat(), name="sign of life")
        self._thread.start()
        work = self.leadership.run(
            lambda: _call(main, gained),
            lambda: _call(main, lost),
        )
        self._striving = asyncio.run_coroutine_threadsafe(work, self._loop)

    async def stop(self) -> None:
        """Release the lease, after all work has ended."""
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
    """Call in that loop, unless it has ended."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(function)
