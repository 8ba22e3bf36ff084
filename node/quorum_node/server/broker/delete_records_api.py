"""DeleteRecords: advances the start offsets of logs, and answers when all live replicas have done so.

Owns the checks and the waiting. Segments are deleted by the next retention check.
Source: KIP-107; the rules of a stock leader (`ReplicaManager.deleteRecords`, `DelayedDeleteRecords`).
"""

import asyncio
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from quorum_node.protocol.delete_records import (
    TO_HIGH_WATERMARK,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.internal_topics import INTERNAL_TOPICS
from quorum_node.server.broker.topic_lookup import May, anything, look_up
from quorum_node.server.listener.port import InboundRequest

NO_LOW_WATERMARK = -1
_LONGEST_SECONDS = 600.0


@dataclass(slots=True, eq=False)
class _Part:
    """One partition of a request. `replica`: None once the outcome is known."""

    index: int
    error: ErrorCode = ErrorCode.NONE
    low_watermark: int = NO_LOW_WATERMARK
    replica: HostedReplica | None = None
    wanted_offset: int = 0

    def update(self) -> bool:
        """Update the outcome. Returns whether it is known: all live replicas have advanced, or this replica is no longer the leader."""
        if self.replica is None:
            return True
        low_watermark = self.replica.core.low_watermark
        if low_watermark is None:
            failed = self.replica.has_failed
            self.error = (
                ErrorCode.KAFKA_STORAGE_ERROR if failed else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
            self.low_watermark = NO_LOW_WATERMARK
            self.replica = None
            return True
        self.low_watermark = low_watermark
        if low_watermark >= self.wanted_offset:
            self.replica = None
        return self.replica is None


class DeleteRecordsApi:
    """The handler of DeleteRecords. Each waiting request uses one timer, and one watcher per replica."""

    def __init__(self, replicas: AssignedReplicas) -> None:
        self._replicas = replicas
        self._loop = asyncio.get_running_loop()

    def handle(
        self, inbound: InboundRequest, body: DeleteRecordsRequest, may: May = anything
    ) -> None:
        """Answer now or later, exactly once. Of several offsets for one partition, the last one counts, as in a stock broker."""
        inbound.in_pieces(self._handle(inbound, body, may))

    def _handle(
        self, inbound: InboundRequest, body: DeleteRecordsRequest, may: May
    ) -> Iterator[None]:
        # Repeated partitions are dropped: a partition, repeated thousands of times, would be watched as often, at each of its steps.
        asked: dict[str, dict[int, DeleteRecordsPartition]] = {}
        for topic in body.topics:
            by_index = {each.partition_index: each for each in topic.partitions}
            asked.setdefault(topic.name, {}).update(by_index)
            yield
        parts: _Parts = {}
        for name, by_index in asked.items():
            found = parts[name] = []
            for each in by_index.values():
                found.append(self._delete(name, each, may))
                yield
        waiting = _Waiting(self._loop, inbound, parts)
        for found in parts.values():
            for part in found:
                waiting.watch(part)
                yield
        waiting.begin(min(max(body.timeout_ms, 0) / 1000, _LONGEST_SECONDS))

    def _delete(self, name: str, asked: DeleteRecordsPartition, may: May) -> _Part:
        index = asked.partition_index
        found = look_up(self._replicas, None, name, index, may)
        if isinstance(found, ErrorCode):
            return _Part(index, found)
        if name in INTERNAL_TOPICS:
            return _Part(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
        replica = found.replica
        if replica is None or not replica.is_leader:
            return _Part(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        settings = replica.log.settings
        if settings.compacts and not settings.deletes:
            return _Part(index, ErrorCode.POLICY_VIOLATION)
        high_watermark = replica.core.high_watermark
        offset = high_watermark if asked.offset == TO_HIGH_WATERMARK else asked.offset
        if not 0 <= offset <= high_watermark:
            return _Part(index, ErrorCode.OFFSET_OUT_OF_RANGE)
        replica.delete_records(offset)
        return _Part(index, replica=replica, wanted_offset=offset)


_Parts = dict[str, list[_Part]]
"""By topic."""


class _Waiting:
    """Waits for the outcomes of one request. A step of a replica updates only its own part: updating all parts at every step of every replica
    would block the loop."""

    def __init__(self, loop: AbstractEventLoop, inbound: InboundRequest, parts: _Parts) -> None:
        self._loop = loop
        self._inbound = inbound
        self._parts = parts
        self._watched: list[tuple[HostedReplica, Callable[[], None]]] = []
        self._missing = 0
        self._timer: TimerHandle | None = None
        self._is_over = False
        inbound.when_abandoned(self._forget)

    def watch(self, part: _Part) -> None:
        """Wait for the outcome of this part as well, unless it is known."""
        replica = part.replica
        if replica is None or part.update():
            return

        # Called within a step of a replica: check after the step.
        def moved() -> None:
            self._loop.call_soon(self._update, part)

        replica.watch(moved)
        self._watched.append((replica, moved))
        self._missing += 1

    def begin(self, seconds: float) -> None:
        """Answer when all outcomes are known, or after this time."""
        if not self._missing:
            self._reply()
            return
        self._timer = self._loop.call_later(seconds, self._end)

    def _end(self) -> None:
        """The time is over. All parts are updated again: no watcher is called when a follower no longer counts because its broker has ended."""
        for found in self._parts.values():
            for part in found:
                part.update()
        self._reply()

    def _update(self, part: _Part) -> None:
        if self._is_over or part.replica is None or not part.update():
            return
        self._missing -= 1
        if not self._missing and self._timer is not None:
            self._reply()

    def _forget(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for replica, moved in self._watched:
            replica.unwatch(moved)

    def _reply(self) -> None:
        self._forget()
        parts = self._parts
        self._inbound.reply_made(lambda: _answer(parts))


def _answer(parts: _Parts) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=tuple(
            DeleteRecordsTopicResult(name=name, partitions=tuple(map(_result, found)))
            for name, found in parts.items()
        )
    )


def _result(part: _Part) -> DeleteRecordsPartitionResult:
    is_waiting = part.replica is not None
    return DeleteRecordsPartitionResult(
        partition_index=part.index,
        low_watermark=part.low_watermark,
        error_code=ErrorCode.REQUEST_TIMED_OUT if is_waiting else part.error,
    )
