"""Watches free space: after writes, and by a slow timer when nothing is written.

A filesystem that no longer answers is a storage failure, noticed here even on an idle replica.
"""

import asyncio

from quorum_node.server.replica_host import ReplicaHost
from quorum_node.storage.disk_reserve import DiskReserve
from quorum_node.storage.errors import DiskFull, StorageFailure

_IDLE_SECONDS = 2.0
_BUSY_SECONDS = 0.25
"""At most this often while the log is being written."""


class DiskWatch:
    """Tells the replica when free space crosses the reserve."""

    def __init__(self, reserve: DiskReserve, host: ReplicaHost) -> None:
        self._reserve = reserve
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._measured_at = 0.0
        host.on_flushed = self._after_flush

    def start(self) -> None:
        """Measure now, and from now on."""
        self._measure()
        self._timer = self._loop.call_later(_IDLE_SECONDS, self.start)

    def stop(self) -> None:
        """No more measuring."""
        if self._timer is not None:
            self._timer.cancel()

    def _after_flush(self) -> None:
        if self._loop.time() - self._measured_at >= _BUSY_SECONDS:
            self._measure()

    def _measure(self) -> None:
        self._measured_at = self._loop.time()
        try:
            changed = self._reserve.measure()
        except (StorageFailure, DiskFull) as failure:
            self._host.fail_storage(failure)
            return
        if changed:
            self._host.disk_low(self._reserve.low)
