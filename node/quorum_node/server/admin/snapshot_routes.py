"""Writing a snapshot of one replica's state on request."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query

from quorum_node.api import MAX_TIMEOUT_MS, ErrorCode, SnapshotResult
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.admin.node_view import ChosenReplica, NodeView
from quorum_node.server.admin.problems import ApiProblem, timed_out
from quorum_node.server.admin.views import snapshot_document
from quorum_node.server.snapshots.port import Outcome

_DEFAULT_TIMEOUT_MS = 60_000

TimeoutMs = Annotated[int, Query(alias="timeoutMs", ge=1, le=MAX_TIMEOUT_MS)]


def router(node: NodeView) -> APIRouter:
    """The routes over one node."""
    routes = APIRouter(prefix="/v1")

    @routes.post("/snapshot")
    async def take(
        replica: ChosenReplica, timeout_ms: TimeoutMs = _DEFAULT_TIMEOUT_MS
    ) -> SnapshotResult:
        """Writes a snapshot of this node's state. It is not forwarded to the leader: every replica writes its own."""
        before = replica.host.snapshots.latest()
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome) -> None:
            if not future.done():
                future.set_result(outcome)

        replica.host.request_snapshot(done)
        try:
            outcome = await asyncio.wait_for(future, timeout_ms / 1000)
        except TimeoutError:
            raise timed_out("the snapshot", timeout_ms) from None
        if not isinstance(outcome, SnapshotId):
            raise ApiProblem(409, ErrorCode.SNAPSHOT_REFUSED, f"no snapshot is written: {outcome}")
        return SnapshotResult(
            node_id=replica.describe().key.id,
            written=outcome != before,
            snapshot=snapshot_document(replica.host.snapshots, outcome),
            log_start_offset=replica.host.log.start_offset,
        )

    return routes
