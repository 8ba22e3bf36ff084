"""The routes' view of one partition's replica: its state, and requests to it whose answers are awaited."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TypeVar

from quorum_node.api import ErrorCode, StateDescription
from quorum_node.raft import messages as raft
from quorum_node.raft.description import ReplicaDescription
from quorum_node.raft.errors import RaftError
from quorum_node.raft.roles import RoleName
from quorum_node.server.admin.problems import ApiProblem, problem, timed_out, unconfirmed
from quorum_node.server.admin.views import CatchUp, catch_up, state_document
from quorum_node.server.partition.port import (
    AppendOutcome,
    Committed,
    HostedPartition,
    TooLarge,
    clock_ms,
)

T = TypeVar("T")


@dataclass(slots=True)
class ReplicaView:
    """The replica that a request chose with `?partition=`."""

    host: HostedPartition
    fetch_timeout_ms: float
    scheme: str = "http"
    """URL scheme of the admin API, on this node and therefore on the others."""

    @property
    def partition(self) -> int:
        """Number of the partition."""
        return self.host.partition

    def describe(self) -> ReplicaDescription:
        """The state of the core now."""
        return self.host.describe()

    def is_leader(self) -> bool:
        """Whether this replica believes that it leads."""
        return self.describe().role is RoleName.LEADER

    def catch_up(self) -> CatchUp:
        """Whether this replica is caught up."""
        return catch_up(self.describe(), clock_ms(), self.fetch_timeout_ms)

    def state(self) -> StateDescription:
        """The state that the replica's image holds."""
        return state_document(self.describe(), self.host.committed.end_offset, clock_ms())

    def state_age_ms(self) -> int | None:
        """Maximum age of the image in milliseconds; None if the replica has received no data from a leader."""
        as_of_ms = self.describe().as_of_ms
        return None if as_of_ms is None else max(0, round(clock_ms() - as_of_ms))

    async def next_role(self, timeout_seconds: float) -> None:
        """Return when the role, or the known leader, has changed, or the time is over."""
        # Not wait_for: up to Python 3.11 it starts to wait in a task, and a change in between would be missed.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self.host.next_role()

    async def confirm_read(self, timeout_ms: int) -> None:
        """Return once the image is not older than this call, on any replica. Raises ApiProblem."""
        future: asyncio.Future[RaftError | None] = _future()
        reader = self.host.reads.submit(lambda error: _resolve(future, error))
        try:
            error = await asyncio.wait_for(future, timeout_ms / 1000)
        except TimeoutError:
            self.host.reads.cancel(reader)
            raise unconfirmed(self.describe(), timeout_ms) from None
        if error is not None:
            raise problem(error)

    async def append(self, values: tuple[bytes, ...], timeout_ms: int) -> Committed:
        """Append and wait for the commit. Raises ApiProblem."""
        future: asyncio.Future[AppendOutcome] = _future()
        self.host.append(values, lambda outcome: _resolve(future, outcome))
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
