"""Stops replicas that the metadata does not assign to this broker any more, in turns of the event loop.

Owns which replicas still have to be stopped. A topic with thousands of partitions may be deleted at once, and in one turn their ends
would hold up the heartbeats of this broker. A replica gets no more requests before it is stopped: `AssignedReplicas` has removed it.
"""

import asyncio
from collections.abc import Callable, Iterator

from quorum_node.broker.events import ReplicaStopped
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.replica_turns import AT_ONCE, TURN_SECONDS
from quorum_node.server.pieces import is_done


class ReplicaStops:
    """`stopped`: called after the end of each replica. The deletion of its log has begun then, if its directory is online."""

    def __init__(self, stopped: Callable[[HostedReplica], None]) -> None:
        self._stopped = stopped
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[tuple[str, int], HostedReplica] = {}
        self._timer: asyncio.Handle | None = None

    def add(self, replica: HostedReplica) -> None:
        """Stop a replica, and delete its log. `begin` has to follow. No other replica of its name waits: none was opened before."""
        self._waiting[replica.topic_name, replica.key.partition_id] = replica

    def begin(self) -> None:
        """Stop some now, unless earlier ones wait for their turn, and the others in later turns."""
        if self._timer is None and self._waiting:
            ends = self._ends()
            for _ in range(AT_ONCE):
                next(ends, None)
            self._go_on_later()

    def is_waiting(self, topic_name: str, partition_id: int) -> bool:
        """Whether a replica of this name has to be stopped before another one can be opened: both have the same path."""
        return (topic_name, partition_id) in self._waiting

    def close(self) -> None:
        """Stop all of them now. The next start finds their logs, and sets them aside."""
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, {}
        for replica in waiting.values():
            replica.take(ReplicaStopped(delete=False))

    def _go_on_later(self) -> None:
        self._timer = self._loop.call_soon(self._take_turn) if self._waiting else None

    def _take_turn(self) -> None:
        is_done(self._ends(), TURN_SECONDS)
        self._go_on_later()

    def _ends(self) -> Iterator[None]:
        """Stops one replica after the other."""
        while self._waiting:
            replica = self._waiting.pop(next(iter(self._waiting)))
            replica.take(ReplicaStopped(delete=True))
            self._stopped(replica)
            yield
