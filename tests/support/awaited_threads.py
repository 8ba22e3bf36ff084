"""The threads of log directories, which a test can wait for without giving up its turn of the loop."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from quorum_node.server.broker.directory_threads import DirectoryThreads


def when_waited_for(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Call `act` whenever somebody begins to wait for the end of a pool of threads: its work is held up until then."""
    shut_down = ThreadPoolExecutor.shutdown

    def waited(
        pool: ThreadPoolExecutor, wait: bool = True, *, cancel_futures: bool = False
    ) -> None:
        if wait:
            act()
        shut_down(pool, wait, cancel_futures=cancel_futures)

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", waited)


class AwaitedThreads(DirectoryThreads):
    """`finish` is for tests that go on in the same turn, and for virtual time, which can't wait for threads."""

    def finish(self) -> None:
        """Wait for all work, and for what its results begin, and take the results."""
        while self.unfinished:
            ended = self._ended.get(timeout=60)
            self.unfinished -= 1
            ended()
            if not self.unfinished:
                self._turn_ended()

    def finish_found(self) -> None:
        """Wait for the first work only, which looks for the logs of one directory."""
        ended = self._ended.get(timeout=60)
        self.unfinished -= 1
        ended()
