"""Linearizable reads: those that wait for a confirmation, shared by as many as possible.

The same on every replica: whether the core asks the voters (a leader) or the leader (everyone else)
makes no difference here.

A read may share the confirmation of another only if that one *begins* after the read arrived; so
whatever arrives while one is under way waits for the next. The reader is called once the state is
applied up to the confirmed offset.
"""

import asyncio
from collections.abc import Callable

from quorum_node.raft.errors import RaftError
from quorum_node.server.applier import Applier
from quorum_node.server.metrics import PartitionMetrics

ReadDone = Callable[[RaftError | None], None]


class ReadQueue:
    """Reads that wait, and the one confirmation under way."""

    def __init__(
        self, request_read: Callable[[int], None], applier: Applier, metrics: PartitionMetrics
    ) -> None:
        self._request_read = request_read
        self._applier = applier
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._waiting: list[ReadDone] = []
        self._confirming: list[ReadDone] = []
        self._asked_at = 0.0
        self._read_id = 0
        self._scheduled = False

    def submit(self, done: ReadDone) -> None:
        """`done(None)`: the image is not older than this call. Exactly once, never from within."""
        self._waiting.append(done)
        self._schedule()

    def count_local(self) -> None:
        """Somebody read the image as it is."""
        self._metrics.count_labelled("reads", "local")

    def confirmed(self, read_id: int, offset: int) -> None:
        """The core confirmed the leadership for a read."""
        if read_id == self._read_id:
            readers, self._confirming = self._confirming, []
            self._metrics.count_labelled("reads", "confirmed", len(readers))
            self._metrics.observe("read_round_seconds", self._loop.time() - self._asked_at)
            self._applier.when_applied(offset, lambda: _tell(readers, None))
            self._schedule()

    def failed(self, read_id: int, error: RaftError) -> None:
        """The core could not confirm it."""
        if read_id == self._read_id:
            readers, self._confirming = self._confirming, []
            self._metrics.count_labelled("reads", error.name.lower(), len(readers))
            self._schedule()
            _tell(readers, error)

    def _schedule(self) -> None:
        if self._waiting and not self._confirming and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._scheduled = False
        self._confirming, self._waiting = self._waiting, []
        self._read_id += 1
        self._asked_at = self._loop.time()
        self._metrics.count("read_rounds")
        self._request_read(self._read_id)


def _tell(readers: list[ReadDone], error: RaftError | None) -> None:
    for done in readers:
        done(error)
