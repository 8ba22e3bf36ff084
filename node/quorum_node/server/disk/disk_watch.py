"""Watches the disk that all replicas share: free space after writes, and periodically whether the disk responds.

While a replica is idle, a probe is written. A flush or probe that does not return in time counts as a failed disk, because whatever
waits for it would wait forever.
"""

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from quorum_node.server.ending.loop_calls import call_on_loop
from quorum_node.storage.disk_probe import probe
from quorum_node.storage.disk_reserve import DiskReserve
from quorum_node.storage.errors import DiskFull, StorageFailure

_IDLE_SECONDS = 2.0
_BUSY_SECONDS = 0.25
"""In seconds: free space is measured at most this often while the log is being written."""
HANG_SECONDS = 30.0
"""A disk whose sync takes longer has failed."""


class DiskUsers(Protocol):
    """The replicas on the disk."""

    def flushes_begun_at(self) -> Iterable[float | None]:
        """For each replica: loop time in seconds at which its current flush began; None without one."""

    def fail_storage(self, failure: StorageFailure | DiskFull) -> None:
        """The disk has failed: all replicas on it fail."""

    def disk_low(self, low: bool) -> None:
        """Free space crossed the reserve (`low`: it is below it now)."""


class DiskWatch:
    """Informs the replicas when free space crosses the reserve, and when the disk fails or hangs."""

    def __init__(self, directory: Path, reserve: DiskReserve, users: DiskUsers) -> None:
        self._directory = directory
        self._reserve = reserve
        self._users = users
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._measured_at = 0.0
        self._flushed_at = 0.0
        self._probing_since: float | None = None

    def start(self) -> None:
        """Measure now, and periodically from now on."""
        self._measure()
        self._look()

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()

    def flushed(self) -> None:
        """A replica has flushed its log."""
        self._flushed_at = self._loop.time()
        if self._flushed_at - self._measured_at >= _BUSY_SECONDS:
            self._measure()

    def _look(self) -> None:
        self._timer = self._loop.call_later(_IDLE_SECONDS, self._look)
        now = self._loop.time()
        if now - self._measured_at >= _IDLE_SECONDS:
            self._measure()
        flushes = [("fsync", since) for since in self._users.flushes_begun_at()]
        for what, since in (*flushes, ("probe", self._probing_since)):
            if since is not None and now - since > HANG_SECONDS:
                text = f"the disk hangs: a {what} has not returned for {now - since:.0f} s"
                self._users.fail_storage(StorageFailure(text))
        if self._probing_since is None and now - self._flushed_at >= _IDLE_SECONDS:
            self._probing_since = now
            threading.Thread(target=self._probe, name="disk-probe", daemon=True).start()

    def _measure(self) -> None:
        self._measured_at = self._loop.time()
        try:
            changed = self._reserve.measure()
        except (StorageFailure, DiskFull) as failure:
            self._users.fail_storage(failure)
            return
        if changed:
            self._users.disk_low(self._reserve.low)

    def _probe(self) -> None:
        """Runs on a thread of its own, because a dead disk may never answer."""
        failure: StorageFailure | None = None
        try:
            probe(self._directory)
        except DiskFull:
            pass  # free space is measured elsewhere
        except StorageFailure as error:
            failure = error
        call_on_loop(self._loop, self._probed, failure)

    def _probed(self, failure: StorageFailure | None) -> None:
        self._probing_since = None
        if failure is not None:
            self._users.fail_storage(failure)
