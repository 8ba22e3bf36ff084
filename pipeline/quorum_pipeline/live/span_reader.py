"""Reads one span of a running quorum's log. Tasks read different spans, and each begins with another replica.

Replicas other than the leader are read by their admin API, up to their own high watermarks. What is committed is the same on all replicas
of a quorum. To be sure that a replica is one of them, and has the whole span, its batch at the last offset of the span has to be the
leader's, with epoch and checksum: logs with the same epoch at an offset have the same records up to it (log matching; Raft, section 5.3). A
replica that lags behind, has another batch there or fails is replaced by the next one, in the end by the leader. No Spark.
"""

from collections import deque
from collections.abc import Sequence
from time import monotonic

from quorum_node.client.connections import Address
from quorum_node.records.batches import Batch, BatchHeader
from quorum_pipeline.live.quorum import Quorum
from quorum_pipeline.live.replica_log import ReplicaLog, ReplicaUnread, ReplicaUnusable

WORTH_OFFSETS = 1_000
"""Fewer are read from the leader, as a replica needs several requests before."""
RETRY_AFTER_SECONDS = 600.0
MIN_BYTES, MAX_BYTES = 64 << 10, 4 << 20
"""Of one answer of the leader."""
_OFFSET_BYTES = 256
"""More than most records have, so that few offsets are not answered with all that follow them."""

_unusable: dict[Address, float] = {}
"""When a replica that could not be used may be tried again, for all tasks of the process: otherwise each would wait for it."""


class SpanReader:
    """Committed offsets below `end`, from `start` on; to be closed by the caller."""

    def __init__(self, quorum: Quorum, start: int, end: int) -> None:
        self._quorum = quorum
        self._end = end
        self._replica: ReplicaLog | None = None
        self._last: BatchHeader | None = None
        self._left: deque[Address] = deque()
        if end - start >= WORTH_OFFSETS and quorum.replicas != ():
            found = quorum.read(end - 1, end, max_bytes=1)
            if found:
                self._last = found[0].header
                self._left.extend(_replicas(quorum, start, end))

    @property
    def name(self) -> str:
        """The server that is read now."""
        return self._quorum.leader if self._replica is None else self._replica.name

    def close(self) -> None:
        """Close the connection to the replica; that of the quorum stays."""
        if self._replica is not None:
            self._replica.close()
            self._replica = None

    def read(self, offset: int) -> list[Batch]:
        """Whole batches from the one with `offset` on, as `Quorum.read`. Raises PipelineError."""
        while self._left:
            try:
                if self._replica is None:
                    self._replica = self._opened(self._left[0])
                return self._replica.read(offset, self._end)
            except ReplicaUnread as error:
                if isinstance(error, ReplicaUnusable):
                    _unusable[self._left[0]] = monotonic() + RETRY_AFTER_SECONDS
                self.close()
                self._left.popleft()
        left_bytes = (self._end - offset) * _OFFSET_BYTES
        return self._quorum.read(offset, self._end, min(max(left_bytes, MIN_BYTES), MAX_BYTES))

    def _opened(self, address: Address) -> ReplicaLog:
        """The replica, if it has the span. Raises ReplicaUnread."""
        replica = ReplicaLog(address, self._quorum.tls)
        try:
            found = replica.read(self._end - 1, self._end, max_bytes=1)
            if found[0].header != self._last:
                raise ReplicaUnread(f"{replica.name} has another batch at offset {self._end - 1}")
        except BaseException:
            replica.close()
            raise
        return replica


def _replicas(quorum: Quorum, start: int, end: int) -> Sequence[Address]:
    """The replicas to read a span from, in order; the leader follows. Spans of equal size begin with different ones."""
    places: list[Address | None]
    if quorum.replicas is not None:
        places = [*quorum.replicas]
    else:
        voters = quorum.voters()
        # None: the leader, which answers Fetch.
        places = [
            None if each.leads else each.admin
            for each in voters
            if each.leads or (each.admin is not None and each.log_end_offset >= end)
        ]
    now = monotonic()
    places = [each for each in places if each is None or _unusable.get(each, now) <= now]
    if not places:
        return ()
    first = start // (end - start) % len(places)
    if places[first] is None:
        return ()
    return [each for each in (*places[first:], *places[:first]) if each is not None]
