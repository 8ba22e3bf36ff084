"""DeleteRecords: advances the start offsets of logs, and answers when all live replicas have done so.

Owns the checks and the waiting. Segments are deleted by the next retention check.
Source: KIP-107; the rules of a stock leader (`ReplicaManager.deleteRecords`, `DelayedDeleteRecords`).
"""

import asyncio
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

    topic: int
    index: int
    error: ErrorCode = ErrorCode.NONE
    low_watermark: int = NO_LOW_WATERMARK
    replica: HostedReplica | None = None
    wanted_offset: int = 0

    def look(self) -> bool:
        """Check whether the outcome is known: all live replicas have advanced, or this replica is no longer the leader."""
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
        """Answer now or later, exactly once."""
        parts = [
            self._delete(number, topic.name, each, may)
            for number, topic in enumerate(body.topics)
            for each in topic.partitions
        ]
        if _are_settled(parts):
            _reply(inbound, body, parts)
        else:
            self._wait(inbound, body, parts)

    def _delete(self, topic: int, name: str, asked: DeleteRecordsPartition, may: May) -> _Part:
        index = asked.partition_index
        found = look_up(self._replicas, None, name, index, may)
        if isinstance(found, ErrorCode):
            return _Part(topic, index, found)
        if name in INTERNAL_TOPICS:
            return _Part(topic, index, ErrorCode.INVALID_TOPIC_EXCEPTION)
        replica = found.replica
        if replica is None or not replica.is_leader:
            return _Part(topic, index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not replica.log.settings.deletes:
            return _Part(topic, index, ErrorCode.POLICY_VIOLATION)
        high_watermark = replica.core.high_watermark
        offset = high_watermark if asked.offset == TO_HIGH_WATERMARK else asked.offset
        if not 0 <= offset <= high_watermark:
            return _Part(topic, index, ErrorCode.OFFSET_OUT_OF_RANGE)
        replica.delete_records(offset)
        return _Part(topic, index, replica=replica, wanted_offset=offset)

    def _wait(
        self, inbound: InboundRequest, body: DeleteRecordsRequest, parts: list[_Part]
    ) -> None:
        watched = [each.replica for each in parts if each.replica is not None]
        is_over = False

        def forget() -> None:
            nonlocal is_over
            is_over = True
            timer.cancel()
            for replica in watched:
                replica.unwatch(moved)

        def moved() -> None:
            # Called within a step of a replica: check after the step.
            self._loop.call_soon(look)

        def look() -> None:
            if not is_over and _are_settled(parts):
                forget()
                _reply(inbound, body, parts)

        def ended() -> None:
            look()
            if not is_over:
                forget()
                _reply(inbound, body, parts)

        seconds = min(max(body.timeout_ms, 0) / 1000, _LONGEST_SECONDS)
        timer = self._loop.call_later(seconds, ended)
        for replica in watched:
            replica.watch(moved)
        inbound.when_abandoned(forget)


def _are_settled(parts: list[_Part]) -> bool:
    """Whether all outcomes are known. Updates every part, even after the first one that is not settled."""
    return not [each for each in parts if not each.look()]


def _reply(inbound: InboundRequest, body: DeleteRecordsRequest, parts: list[_Part]) -> None:
    by_topic: dict[int, list[DeleteRecordsPartitionResult]] = {}
    for part in parts:
        by_topic.setdefault(part.topic, []).append(_result(part))
    inbound.reply(
        DeleteRecordsResponse(
            topics=tuple(
                DeleteRecordsTopicResult(
                    name=topic.name, partitions=tuple(by_topic.get(number, ()))
                )
                for number, topic in enumerate(body.topics)
            )
        )
    )


def _result(part: _Part) -> DeleteRecordsPartitionResult:
    is_waiting = part.replica is not None
    return DeleteRecordsPartitionResult(
        partition_index=part.index,
        low_watermark=part.low_watermark,
        error_code=ErrorCode.REQUEST_TIMED_OUT if is_waiting else part.error,
    )
