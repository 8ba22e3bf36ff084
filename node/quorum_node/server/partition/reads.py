"""Linearizable reads: they wait for a confirmation of leadership, and share it where possible.

The same on every replica: the core asks the voters on the leader, and the leader on other replicas.

A read may share a confirmation only if that *begins* after the read arrived. Reads that arrive during a confirmation wait for the next
one. The callback is called once the image is applied up to the confirmed offset.
"""

import asyncio
from collections.abc import Callable, Iterable

from quorum_node.raft.errors import RaftError
from quorum_node.server.observing.metrics import PartitionMetrics
from quorum_node.server.partition.applier import Applier
from quorum_node.server.partition.port import ReadDone, Reader


class ReadQueue:
    """The waiting reads, and the confirmation in progress.

    `request_read` and `abandon_read` are the core's, by read id.
    """

    def __init__(
        self,
        request_read: Callable[[int], None],
        abandon_read: Callable[[int], None],
        applier: Applier,
        metrics: PartitionMetrics,
    ) -> None:
        self._request_read = request_read
        self._abandon_read = abandon_read
        self._applier = applier
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Reader, None] = {}
        self._confirming: dict[Reader, None] = {}
        self._asked_at = 0.0
        self._read_id = 0
        self._scheduled = False

    def submit(self, done: ReadDone) -> Reader:
        """`done(None)` is called when the image is not older than this call. At most once, never before this returns."""
        reader = Reader(done)
        self._waiting[reader] = None
        self._schedule()
        return reader

    def cancel(self, reader: Reader) -> None:
        """Cancel a read. A confirmation that no read waits for is abandoned: the next one may succeed sooner."""
        reader.leave()
        self._waiting.pop(reader, None)
        if reader not in self._confirming:
            return
        del self._confirming[reader]
        if not self._confirming:
            self._abandon_read(self._read_id)
            self._read_id += 1
            self._metrics.count_labelled("reads", "abandoned")
            self._schedule()

    def count_local(self) -> None:
        """Count a local read, which does not wait."""
        self._metrics.count_labelled("reads", "local")

    def confirmed(self, read_id: int, offset: int) -> None:
        """The core confirmed the leadership for a read."""
        if read_id == self._read_id:
            readers, self._confirming = self._confirming, {}
            self._metrics.count_labelled("reads", "confirmed", len(readers))
            self._metrics.observe("read_round_seconds", self._loop.time() - self._asked_at)
            self._applier.when_applied(offset, lambda: _tell(readers, None))
            self._schedule()

    def failed(self, read_id: int, error: RaftError) -> None:
        """The core could not confirm it."""
        if read_id == self._read_id:
            readers, self._confirming = self._confirming, {}
            self._metrics.count_labelled("reads", error.name.lower(), len(readers))
            self._schedule()
            _tell(readers, error)

    def _schedule(self) -> None:
        if self._waiting and not self._confirming and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._scheduled = False
        if not self._waiting:
            return
        self._confirming, self._waiting = self._waiting, {}
        self._read_id += 1
        self._asked_at = self._loop.time()
        self._metrics.count("read_rounds")
        self._request_read(self._read_id)


def _tell(readers: Iterable[Reader], error: RaftError | None) -> None:
    for reader in readers:
        if reader.done is not None:
            reader.done(error)
