"""Counts requests by sender, and measures the times of their handling, by request type.

Owns the four times of KIP-595's table (total, inbound queue, handle, outbound queue) and reading the sender's id from a request. On the
hot path: only dictionary look-ups and additions, no clock of its own.
"""

from collections.abc import Callable
from typing import Any

from quorum_node.protocol import elections as el
from quorum_node.protocol.api import Api
from quorum_node.protocol.discover_brokers import DiscoverBrokersRequest
from quorum_node.protocol.fetch import FetchRequest
from quorum_node.protocol.fetch_snapshot import FetchSnapshotRequest
from quorum_node.protocol.frames import Request
from quorum_node.protocol.voters import UpdateRaftVoterRequest
from quorum_node.schema.schema import Message
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.observing.tally import Durations

CLIENT = -1


class RequestTimes:
    """Updates the metrics of the Kafka listener."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._by_api: dict[int, tuple[Durations, Durations, Durations, Durations]] = {}

    def arrived(self, request: Request) -> None:
        """A request is about to be handled."""
        metrics = self._metrics
        metrics.count_labelled("requests", request.api.name)
        metrics.count_labelled("inbound_requests", source_of(request.body))

    def left(
        self, api: Api, received: float, started: float, answered: float, written: float
    ) -> None:
        """The answer is sent. All times in seconds, on the same clock."""
        times = self._by_api.get(api.key) or self._times_of(api)
        total, queued, handled, waited = times
        total.add(written - received)
        queued.add(started - received)
        handled.add(answered - started)
        waited.add(written - answered)

    def _times_of(self, api: Api) -> tuple[Durations, Durations, Durations, Durations]:
        of, name = self._metrics.durations_of, api.name
        times = self._by_api[api.key] = (
            of("request_total_time_seconds", name),
            of("request_queue_time_seconds", name),
            of("request_handle_time_seconds", name),
            of("response_queue_time_seconds", name),
        )
        return times


def source_of(body: Message | None) -> int:
    """Node id of the sender, if the request names it; -1 for clients."""
    source = _SOURCES.get(type(body))
    return CLIENT if source is None else source(body)


def _candidate(body: el.VoteRequest) -> int:
    return next((p.replica_id for t in body.topics for p in t.partitions), CLIENT)


def _leader(body: el.BeginQuorumEpochRequest | el.EndQuorumEpochRequest) -> int:
    return next((p.leader_id for t in body.topics for p in t.partitions), CLIENT)


_SOURCES: dict[type, Callable[[Any], int]] = {
    FetchRequest: lambda body: int(body.fetcher_id),
    DiscoverBrokersRequest: lambda body: int(body.replica_id),
    FetchSnapshotRequest: lambda body: int(body.replica_id),
    el.VoteRequest: _candidate,
    el.BeginQuorumEpochRequest: _leader,
    el.EndQuorumEpochRequest: _leader,
    UpdateRaftVoterRequest: lambda body: int(body.voter_id),
}
