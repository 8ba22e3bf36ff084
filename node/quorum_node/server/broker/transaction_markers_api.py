"""WriteTxnMarkers: ends transactions in the partitions that this broker leads, at the request of a transaction coordinator.

Owns the bytes of a marker, and collects the outcomes. The core decides whether a marker is accepted.
Source: KIP-98, "Control Messages"; KIP-890; the rules of a stock broker for WriteTxnMarkers 1 and 2.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from struct import Struct

from quorum_node.broker.batch import Batch, Marker
from quorum_node.broker.errors import BrokerError
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.write_txn_markers import (
    MarkedPartitionResult,
    MarkedTopicResult,
    MarkerResult,
    TransactionMarker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from quorum_node.records.batches import Record, encode_batch
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.group_coordinators import GroupCoordinators
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.internal_topics import OFFSETS_TOPIC
from quorum_node.server.broker.topic_lookup import look_up
from quorum_node.server.broker.wire_errors import code_of
from quorum_node.server.listener.port import InboundRequest
from quorum_node.storage.broker.time_of_day import time_of_day_ms

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_ABORT, _COMMIT = 0, 1
_ALL_REPLICAS = -1
_TIMEOUT_MS = 30_000.0

_Place = tuple[int, int, int]
"""Index of the marker in the request, index of the topic in the marker, and partition."""


@dataclass(slots=True, eq=False)
class _Collected:
    inbound: InboundRequest
    body: WriteTxnMarkersRequest
    missing: int
    outcomes: dict[_Place, ErrorCode] = field(default_factory=dict)

    def take(self, place: _Place, code: ErrorCode) -> bool:
        """Record an outcome; True if it was the last one."""
        self.outcomes[place] = code
        self.missing -= 1
        return not self.missing


class TransactionMarkersApi:
    """The handler of WriteTxnMarkers. `groups`: notified of ends of transactions that may have committed offsets."""

    def __init__(self, replicas: AssignedReplicas, groups: GroupCoordinators) -> None:
        self._replicas = replicas
        self._groups = groups

    def handle(self, inbound: InboundRequest, body: WriteTxnMarkersRequest) -> None:
        """Answer when every marker is on all replicas of its ISR, or was refused."""
        inbound.in_pieces(self._handle(inbound, body))

    def _handle(self, inbound: InboundRequest, body: WriteTxnMarkersRequest) -> Iterator[None]:
        count = sum(
            len(topic.partition_indexes) for marker in body.markers for topic in marker.topics
        )
        collected = _Collected(inbound, body, count)
        if not count:
            _reply(collected)
            return
        for number, marker in enumerate(body.markers):
            for place, topic in enumerate(marker.topics):
                yield
                for each in topic.partition_indexes:
                    done = partial(_done, collected, (number, place, each))
                    self._write(marker, topic.name, each, done)
                    yield

    def _write(
        self,
        marker: TransactionMarker,
        topic: str,
        partition: int,
        done: Callable[[ErrorCode], None],
    ) -> None:
        found = look_up(self._replicas, None, topic, partition)
        if isinstance(found, ErrorCode):
            done(found)
            return
        if found.replica is None:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return

        def written(error: BrokerError, offset: int) -> None:
            if error is BrokerError.NONE and topic == OFFSETS_TOPIC:
                self._groups.marker_written(
                    partition, marker.producer_id, commit=marker.transaction_result
                )
            done(code_of(error))

        append(found.replica, marker, written)


def append(
    replica: HostedReplica, marker: TransactionMarker, written: Callable[[BrokerError, int], None]
) -> None:
    """Write the marker into the log of one partition."""
    now_ms = time_of_day_ms()
    kind = _COMMIT if marker.transaction_result else _ABORT
    record = Record(_KEY.pack(0, kind), _VALUE.pack(0, marker.coordinator_epoch))
    data = encode_batch(
        base_offset=0,
        leader_epoch=-1,
        timestamp_ms=now_ms,
        records=[record],
        control=True,
        transaction=(marker.producer_id, marker.producer_epoch),
    )
    batch = Batch(
        base_offset=0,
        end_offset=1,
        leader_epoch=-1,
        size_bytes=len(data),
        data=data,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        max_timestamp_ms=now_ms,
        is_transactional=True,
        marker=Marker(
            not marker.transaction_result, marker.coordinator_epoch, marker.transaction_version
        ),
    )
    replica.produce(batch, _ALL_REPLICAS, _TIMEOUT_MS, written)


def _done(collected: _Collected, place: _Place, code: ErrorCode) -> None:
    if collected.take(place, code):
        _reply(collected)


def _reply(collected: _Collected) -> None:
    collected.inbound.reply_made(lambda: _answer(collected))


def _answer(collected: _Collected) -> WriteTxnMarkersResponse:
    markers = tuple(
        MarkerResult(
            producer_id=marker.producer_id,
            topics=tuple(
                MarkedTopicResult(
                    name=topic.name,
                    partitions=tuple(
                        MarkedPartitionResult(
                            partition_index=each, error_code=collected.outcomes[number, place, each]
                        )
                        for each in topic.partition_indexes
                    ),
                )
                for place, topic in enumerate(marker.topics)
            ),
        )
        for number, marker in enumerate(collected.body.markers)
    )
    return WriteTxnMarkersResponse(markers=markers)
