"""The routes' view of the node: its replicas, its disk, its token. Shared by all route modules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Depends, Query, Request

from quorum_node.api import ErrorCode, StorageDescription, StorageState, TlsDescription
from quorum_node.raft.outputs import Halt, HaltReason
from quorum_node.records.identity import Endpoint
from quorum_node.server.admin.paced import Pace
from quorum_node.server.admin.problems import ApiProblem
from quorum_node.server.admin.replica_view import ReplicaView
from quorum_node.server.admin.token_file import TokenFile
from quorum_node.server.controller.port import Decider
from quorum_node.server.ending.fail_stop import OnBug
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.partition.port import HostedPartition
from quorum_node.server.rights.port import Guard
from quorum_node.storage.disk_reserve import DiskReserve


@dataclass(slots=True)
class NodeView:
    """Passed to every route."""

    hosts: Sequence[HostedPartition]
    controller: Decider
    metrics: Metrics
    reserve: DiskReserve
    token: str | None
    fetch_timeout_ms: float
    started_at: datetime
    endpoints: tuple[Endpoint, ...]
    on_bug: OnBug = lambda error: None
    pace: Pace = field(default_factory=Pace)
    guard: Guard | None = None
    """Checks the rights of every request, if an authorizer is configured."""
    token_file: TokenFile | None = None
    """The file that `token` was read from; it may be renewed there."""
    token_needs_tls: bool = False
    """Whether a token that another host sends in clear text is refused, valid or not."""
    scheme: str = "http"
    """URL scheme of this node's admin API."""
    tls: Callable[[], TlsDescription | None] = lambda: None
    """The certificate that this node presents, and the authorities that it trusts."""

    def admin_tokens(self) -> tuple[str, ...]:
        """Every token that is valid now; empty if the node has none."""
        if self.token_file is not None:
            return self.token_file.current()
        return () if self.token is None else (self.token,)

    def replica(self, partition: int) -> ReplicaView:
        """The replica of a partition. Raises a 404 ApiProblem."""
        hosts = self.hosts
        if not 0 <= partition < len(hosts):
            known = "partition 0" if len(hosts) == 1 else f"partitions 0 to {len(hosts) - 1}"
            text = (
                f"partition {partition} does not exist: this node has {known} (quorum.partitions)"
            )
            raise ApiProblem(404, ErrorCode.NOT_FOUND, text)
        return ReplicaView(hosts[partition], self.fetch_timeout_ms, self.scheme)

    def replicas(self) -> list[ReplicaView]:
        """All replicas, by partition."""
        return [ReplicaView(host, self.fetch_timeout_ms, self.scheme) for host in self.hosts]

    def halted(self) -> Halt | None:
        """The reason of the first replica that halted; None if none has."""
        return next((host.halt for host in self.hosts if host.halt is not None), None)

    def storage(self) -> StorageDescription:
        """State of the data directory."""
        halt = self.halted()
        free_bytes = self.reserve.free_bytes
        if halt is not None and halt.reason in (HaltReason.STORAGE_FAILED, HaltReason.CORRUPTION):
            return StorageDescription(
                state=StorageState.FAILED, free_bytes=free_bytes, detail=halt.detail
            )
        if self.reserve.low or (halt is not None and halt.reason is HaltReason.DISK_FULL):
            detail = "free space is below metadata.log.reserve.bytes: appends are refused"
            return StorageDescription(state=StorageState.FULL, free_bytes=free_bytes, detail=detail)
        return StorageDescription(state=StorageState.OK, free_bytes=free_bytes)

    def started_text(self) -> str:
        """Start time, ISO 8601 in UTC."""
        return self.started_at.astimezone(UTC).isoformat(timespec="milliseconds")


def _chosen(request: Request, partition: Annotated[int, Query()] = 0) -> ReplicaView:
    node: NodeView = request.app.state.node
    return node.replica(partition)


ChosenReplica = Annotated[ReplicaView, Depends(_chosen)]
"""A parameter of a route: the replica that `?partition=` names, the first by default."""
