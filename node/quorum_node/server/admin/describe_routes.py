"""/v1/node, /v1/brokers (both local) and /v1/quorum (local, or confirmed by a majority)."""

from typing import Annotated

from fastapi import APIRouter, Query

from quorum_node.api import (
    DEFAULT_TIMEOUT_MS,
    MAX_TIMEOUT_MS,
    DiscoveredBrokers,
    ErrorCode,
    NodeDescription,
    QuorumDescription,
    SnapshotDescription,
)
from quorum_node.raft import messages as raft
from quorum_node.records.identity import ReplicaKey
from quorum_node.server.admin.leader import require_leader
from quorum_node.server.admin.node_view import ChosenReplica, NodeView
from quorum_node.server.admin.problems import ApiProblem
from quorum_node.server.admin.replica_view import ReplicaView
from quorum_node.server.admin.views import (
    discovered_document,
    node_document,
    quorum_document,
    snapshot_document,
)
from quorum_node.server.partition.port import clock_ms

_CLIENT = ReplicaKey(-1)
TimeoutMs = Annotated[int, Query(alias="timeoutMs", ge=1, le=MAX_TIMEOUT_MS)]


def router(node: NodeView) -> APIRouter:
    """The routes over one node."""
    routes = APIRouter(prefix="/v1")

    @routes.get("/node")
    async def describe_node(replica: ChosenReplica) -> NodeDescription:
        """The node itself: identity, role, storage, progress. Answered from its own state, without a leader."""
        return node_document(
            replica.describe(),
            replica.catch_up(),
            node.storage(),
            node.started_text(),
            node.endpoints,
            partition=replica.partition,
            partitions=len(node.hosts),
            latest_snapshot=_latest_snapshot(replica),
            state_held=replica.state(),
            tls=node.tls(),
        )

    @routes.get("/quorum", response_model=QuorumDescription)
    async def describe_quorum(
        replica: ChosenReplica,
        confirmed: bool = False,
        timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    ) -> QuorumDescription:
        """Leader, voters and observers. `confirmed=true`: answered by the leader only, once a majority has confirmed it as leader."""
        if not confirmed:
            return _document(replica, confirmed=False)
        require_leader(replica)
        epoch = replica.describe().leader_epoch
        await replica.confirm_read(timeout_ms)
        if not replica.is_leader() or replica.describe().leader_epoch != epoch:
            # A later leader may have confirmed the read; then this node's own state may be out of date.
            text = f"this node led in epoch {epoch} and has lost leadership since; try again"
            raise ApiProblem(503, ErrorCode.NOT_LEADER, text)
        return _document(replica, confirmed=True)

    @routes.get("/brokers")
    async def discover(replica: ChosenReplica) -> DiscoveredBrokers:
        """Addresses of the voters, as far as this node knows them. Needs no leader."""
        answer = await replica.ask(raft.DiscoverBrokersRequest(_CLIENT), DEFAULT_TIMEOUT_MS)
        assert isinstance(answer, raft.DiscoverBrokersResponse)
        return discovered_document(answer, replica.partition)

    return routes


def _latest_snapshot(replica: ReplicaView) -> SnapshotDescription | None:
    store = replica.host.snapshots
    latest = store.latest()
    return None if latest is None else snapshot_document(store, latest)


def _document(replica: ReplicaView, *, confirmed: bool) -> QuorumDescription:
    return quorum_document(
        replica.describe(), clock_ms(), confirmed=confirmed, partition=replica.partition
    )
