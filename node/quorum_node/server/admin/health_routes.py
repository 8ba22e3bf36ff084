"""/livez, /readyz and /metrics. Liveness never depends on the quorum."""

from fastapi import APIRouter, Response

from quorum_node.api import Liveness, Readiness, StorageState
from quorum_node.server.admin.node_view import NodeView


def router(node: NodeView) -> APIRouter:
    """The routes over one node."""
    routes = APIRouter()

    @routes.get("/livez")
    async def livez(response: Response) -> Liveness:
        """200 while the process can work; 503 once its storage has failed (restart the node, or replace the disk)."""
        storage = node.storage()
        if node.halted() is None and storage.state is not StorageState.FAILED:
            return Liveness(live=True)
        response.status_code = 503
        return Liveness(live=False, reason=storage.detail or "the replica has stopped")

    @routes.get("/readyz")
    async def readyz(response: Response) -> Readiness:
        """200 when every quorum partition of the node has caught up with its leader; 503, with the reason, until then."""
        replicas = node.replicas()
        states = [(replica.catch_up(), replica.partition) for replica in replicas]
        # The node is as ready as its least ready partition.
        state, partition = min(states, key=lambda each: each[0].caught_up)
        if not state.caught_up:
            response.status_code = 503
        reason = state.reason if len(replicas) == 1 else f"partition {partition}: {state.reason}"
        return Readiness(ready=state.caught_up, reason=reason, lag=state.lag)

    @routes.get("/metrics")
    async def metrics() -> Response:
        """All metrics as Prometheus text."""
        return Response(node.metrics.render(), media_type="text/plain; version=0.0.4")

    return routes
