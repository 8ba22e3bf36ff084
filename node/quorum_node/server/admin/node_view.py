"""What the routes see of the node: its replica, its disk, its token. Shared by all route modules."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from quorum_node.api import ErrorCode, StorageDescription, StorageState
from quorum_node.raft import messages as raft
from quorum_node.raft.description import ReplicaDescription
from quorum_node.raft.errors import RaftError
from quorum_node.raft.outputs import HaltReason
from quorum_node.raft.roles import RoleName
from quorum_node.records.identity import Endpoint
from quorum_node.server.admin.forwarding import Forwarder
from quorum_node.server.admin.problems import ApiProblem, problem, timed_out, unconfirmed
from quorum_node.server.admin.views import CatchUp, catch_up
from quorum_node.server.appends import AppendOutcome, Committed, TooLarge
from quorum_node.server.metrics import Metrics
from quorum_node.server.replica_host import ReplicaHost, clock_ms
from quorum_node.storage.disk_reserve import DiskReserve

T = TypeVar("T")


@dataclass(slots=True)
class NodeView:
    """Handed to every route."""

    host: ReplicaHost
    metrics: Metrics
    reserve: DiskReserve
    forwarder: Forwarder
    token: str | None
    fetch_timeout_ms: float
    started_at: datetime
    endpoints: tuple[Endpoint, ...]

    def describe(self) -> ReplicaDescription:
        """What the core knows now."""
        return self.host.describe()

    def is_leader(self) -> bool:
        """Whether this replica believes that it leads."""
        return self.describe().role is RoleName.LEADER

    def catch_up(self) -> CatchUp:
        """Whether this replica is caught up."""
        return catch_up(self.describe(), clock_ms(), self.fetch_timeout_ms)

    def storage(self) -> StorageDescription:
        """State of the data directory."""
        halt = self.host.halt
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

    def state_age_ms(self) -> int | None:
        """How old the image may be; None if no leader was ever heard."""
        as_of_ms = self.describe().as_of_ms
        return None if as_of_ms is None else max(0, round(clock_ms() - as_of_ms))

    async def confirm_read(self, timeout_ms: int) -> None:
        """Return once the image is not older than this call, on any replica. Raises ApiProblem."""
        future: asyncio.Future[RaftError | None] = _future()
        self.host.reads.submit(lambda error: _resolve(future, error))
        try:
            error = await asyncio.wait_for(future, timeout_ms / 1000)
        except TimeoutError:
            raise unconfirmed(self.describe(), timeout_ms) from None
        if error is not None:
            raise problem(error)

    async def append(self, values: tuple[bytes, ...], timeout_ms: int) -> Committed:
        """Append and wait for the commit. Raises ApiProblem."""
        future: asyncio.Future[AppendOutcome] = _future()
        self.host.appends.submit(values, lambda outcome: _resolve(future, outcome))
        try:
            outcome = await asyncio.wait_for(future, timeout_ms / 1000)
        except TimeoutError:
            raise timed_out("the append", timeout_ms) from None
        if isinstance(outcome, RaftError):
            raise problem(outcome)
        if isinstance(outcome, TooLarge):
            text = f"{outcome.size_bytes} bytes don't fit into one batch"
            raise ApiProblem(413, ErrorCode.TOO_LARGE, text)
        return outcome

    async def ask(self, request: raft.Request, timeout_ms: int) -> raft.Response:
        """The core's answer to a request. Raises ApiProblem when there is none in time."""
        future: asyncio.Future[raft.Response] = _future()
        request_id = self.host.request(request, lambda response: _resolve(future, response))
        try:
            return await asyncio.wait_for(future, timeout_ms / 1000)
        except TimeoutError:
            self.host.abandon(request_id)
            raise timed_out("the change", timeout_ms) from None


def _future() -> "asyncio.Future[T]":
    return asyncio.get_running_loop().create_future()


def _resolve(future: "asyncio.Future[T]", value: T) -> None:
    if not future.done():
        future.set_result(value)
