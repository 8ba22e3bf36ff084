"""Voter changes and resignation. Leader only: other replicas answer with the leader's address."""

from typing import Annotated

from fastapi import APIRouter, Query

from quorum_node.api import (
    DEFAULT_TIMEOUT_MS,
    AddVoterRequest,
    EndpointModel,
    ErrorCode,
    ResignRequest,
    ResignResult,
    UpdateVoterRequest,
    VoterChangeResult,
    VotersPosition,
)
from quorum_node.raft import messages as raft
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import Endpoint, ReplicaKey, parse_uuid, replica_key
from quorum_node.server.admin.describe_routes import TimeoutMs
from quorum_node.server.admin.leader import require_leader
from quorum_node.server.admin.node_view import ChosenReplica, NodeView
from quorum_node.server.admin.problems import ApiProblem, invalid, problem
from quorum_node.server.admin.replica_view import ReplicaView

CORE_SLACK_MS = 500
"""Slack for the core, which answers within the timeout itself; this covers the case that it does not."""
MAX_ID = 2**31 - 1

OptionalOffset = Annotated[int | None, Query(alias="expectedOffset")]
OptionalEpoch = Annotated[int | None, Query(alias="expectedEpoch")]


def router(node: NodeView) -> APIRouter:
    """The routes over one node."""
    routes = APIRouter(prefix="/v1")

    @routes.post("/voters", response_model=VoterChangeResult)
    async def add_voter(body: AddVoterRequest, replica: ChosenReplica) -> VoterChangeResult:
        """Makes an observer that has caught up a voter. Answers when the voters record is committed."""
        require_leader(replica)
        change = raft.AddVoterRequest(
            cluster_id=None,
            voter=_key(body.id, body.uuid),
            endpoints=_endpoints(body.endpoints),
            timeout_ms=body.timeout_ms,
            expected=expected_position(body.expected_offset, body.expected_epoch),
            count_newcomer=body.count_newcomer,
        )
        return await _change(replica, change, body.timeout_ms)

    @routes.delete("/voters/{id}/{uuid}", response_model=VoterChangeResult)
    async def remove_voter(
        id: int,
        uuid: str,
        replica: ChosenReplica,
        expected_offset: OptionalOffset = None,
        expected_epoch: OptionalEpoch = None,
        timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    ) -> VoterChangeResult:
        """Removes one replica key from the voters. Answers when the voters record is committed."""
        require_leader(replica)
        change = raft.RemoveVoterRequest(
            None, _key(id, uuid), timeout_ms, expected_position(expected_offset, expected_epoch)
        )
        return await _change(replica, change, timeout_ms)

    @routes.put("/voters/{id}/{uuid}/endpoints", response_model=VoterChangeResult)
    async def update_voter(
        id: int, uuid: str, body: UpdateVoterRequest, replica: ChosenReplica
    ) -> VoterChangeResult:
        """Changes a voter's endpoints and supported versions. Answers when the voters record is committed."""
        require_leader(replica)
        return await _change(replica, _update(_key(id, uuid), body), body.timeout_ms)

    @routes.post("/resign", response_model=ResignResult)
    async def resign(
        replica: ChosenReplica,
        body: ResignRequest | None = None,
        timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    ) -> ResignResult:
        """Hands leadership over, to the voter that is named or to the one with the longest log."""
        require_leader(replica)
        successor = body.successor_id if body else None
        epoch = replica.describe().leader_epoch
        change = raft.ResignRequest(_newest_key(replica, successor))
        answer = await replica.ask(change, timeout_ms + CORE_SLACK_MS)
        if answer.error is not RaftError.NONE:
            raise problem(answer.error, getattr(answer, "message", ""))
        return ResignResult(epoch=epoch)

    return routes


async def _change(replica: ReplicaView, change: raft.Request, timeout_ms: int) -> VoterChangeResult:
    answer = await replica.ask(change, timeout_ms + CORE_SLACK_MS)
    assert isinstance(answer, raft.VoterChangeResponse)
    if answer.error is not RaftError.NONE:
        raise problem(answer.error, answer.message)
    position = answer.position
    if position is None:
        raise ApiProblem(500, ErrorCode.INTERNAL, "the change has no position")
    return VoterChangeResult(
        voters_position=VotersPosition(
            offset=position.offset, epoch=position.epoch, committed=True
        ),
        leader_epoch=answer.leader.leader_epoch,
    )


def _key(id: int, uuid: str) -> ReplicaKey:
    if not 0 <= id <= MAX_ID:
        raise invalid(f"node id {id} must be from 0 to {MAX_ID}")
    try:
        parsed = parse_uuid(uuid)
    except ValueError as error:
        raise invalid(str(error)) from error
    if parsed.int == 0:
        raise invalid("the all-zero UUID means 'unknown'")
    return replica_key(id, parsed)


def _update(key: ReplicaKey, body: UpdateVoterRequest) -> raft.UpdateVoterRequest:
    return raft.UpdateVoterRequest(
        cluster_id=None,
        voter=key,
        endpoints=_endpoints(body.endpoints),
        timeout_ms=body.timeout_ms,
        expected=expected_position(body.expected_offset, body.expected_epoch),
        by_operator=True,
    )


def _newest_key(replica: ReplicaView, successor_id: int | None) -> ReplicaKey | None:
    if successor_id is None:
        return None
    for voter in reversed(replica.describe().voters):
        if voter.key.id == successor_id:
            return voter.key
    raise ApiProblem(409, ErrorCode.VOTER_NOT_FOUND, f"no voter has node id {successor_id}")


def _endpoints(models: list[EndpointModel]) -> tuple[Endpoint, ...]:
    if not any(model.name.upper() == CONTROLLER for model in models):
        raise invalid(f"endpoints: one must be named {CONTROLLER}")
    return tuple(Endpoint(model.name.upper(), model.host, model.port) for model in models)


def expected_position(offset: int | None, epoch: int | None) -> raft.VotersPosition | None:
    """The voters record that a change expects; None if it accepts any."""
    if offset is None and epoch is None:
        return None
    if offset is None or epoch is None:
        raise invalid("expectedOffset and expectedEpoch belong together")
    return raft.VotersPosition(offset, epoch)
