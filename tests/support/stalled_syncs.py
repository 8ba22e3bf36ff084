"""Syncs of logs that stall or fail on threads, and produce requests that wait for them."""

import threading

from quorum_node.broker.errors import BrokerError
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.storage.file_system import PosixFileSystem
from support.data_batches import data_batch


class StalledSyncs(PosixFileSystem):
    """`stall` makes later syncs on other threads wait; `error` makes them fail."""

    def __init__(self) -> None:
        self.error: int | None = None
        self.begun = threading.Event()
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._loop_thread = threading.get_ident()

    def stall(self) -> None:
        self.begun.clear()
        self._goes_on.clear()

    def go_on(self) -> None:
        self._goes_on.set()

    def fdatasync(self, fd: int) -> None:
        if threading.get_ident() != self._loop_thread:
            self.begun.set()
            assert self._goes_on.wait(20)
            if self.error is not None:
                raise OSError(self.error, "a failed sync")
        super().fdatasync(fd)


class Produced:
    """A produce request and its answer."""

    def __init__(self, replica: HostedReplica, acks: int = 1) -> None:
        self.answer: tuple[BrokerError, int] | None = None
        replica.produce(data_batch(0), acks, 60_000.0, self._done)

    def _done(self, error: BrokerError, offset: int) -> None:
        assert self.answer is None
        self.answer = (error, offset)
