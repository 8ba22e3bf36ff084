"""/v1/alter-quorum: set (POST) or cancel (DELETE) the target voters. Leader only: other replicas answer with the leader's address.

Source: KIP-595, "AlterQuorum". Progress is in /v1/quorum (`targetVoters`, `plan`).
"""

from fastapi import APIRouter

from quorum_node.api import (
    DEFAULT_TIMEOUT_MS,
    AlterQuorumRequest,
    AlterQuorumResult,
    TargetVoterModel,
    VotersPosition,
)
from quorum_node.raft import messages as raft
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import ReplicaKey, parse_uuid
from quorum_node.server.admin.describe_routes import TimeoutMs
from quorum_node.server.admin.leader import require_leader
from quorum_node.server.admin.node_view import ChosenReplica, NodeView
from quorum_node.server.admin.problems import invalid, problem
from quorum_node.server.admin.replica_view import ReplicaView
from quorum_node.server.admin.voter_routes import (
    CORE_SLACK_MS,
    MAX_ID,
    OptionalEpoch,
    OptionalOffset,
    expected_position,
)

Target = tuple[ReplicaKey, ...] | None


def router(node: NodeView) -> APIRouter:
    """The routes over one node."""
    routes = APIRouter(prefix="/v1")

    @routes.post("/alter-quorum", response_model=AlterQuorumResult)
    async def alter(body: AlterQuorumRequest, replica: ChosenReplica) -> AlterQuorumResult:
        """Sets target voters (KIP-595 AlterQuorum). The leader reaches them by single changes; the answer is sent when the target is
        committed.
        """
        target = tuple(_key(entry) for entry in body.target_voters)
        expected = expected_position(body.expected_offset, body.expected_epoch)
        require_leader(replica)
        return await _alter(replica, target, expected, body.timeout_ms)

    @routes.delete("/alter-quorum", response_model=AlterQuorumResult)
    async def cancel(
        replica: ChosenReplica,
        expected_offset: OptionalOffset = None,
        expected_epoch: OptionalEpoch = None,
        timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS,
    ) -> AlterQuorumResult:
        """Cancels the target voters. Single changes that were made already stay."""
        expected = expected_position(expected_offset, expected_epoch)
        require_leader(replica)
        return await _alter(replica, None, expected, timeout_ms)

    return routes


async def _alter(
    replica: ReplicaView, target: Target, expected: raft.VotersPosition | None, timeout_ms: int
) -> AlterQuorumResult:
    change = raft.AlterQuorumRequest(None, target, timeout_ms, expected)
    answer = await replica.ask(change, timeout_ms + CORE_SLACK_MS)
    assert isinstance(answer, raft.VoterChangeResponse)
    if answer.error is not RaftError.NONE:
        raise problem(answer.error, answer.message)
    position = answer.position
    assert position is not None
    return AlterQuorumResult(
        current_voters=[voter.key.id for voter in replica.describe().voters],
        target_voters=None if target is None else [key.id for key in target],
        voters_position=VotersPosition(
            offset=position.offset, epoch=position.epoch, committed=True
        ),
        leader_epoch=answer.leader.leader_epoch,
    )


def _key(entry: int | TargetVoterModel) -> ReplicaKey:
    if isinstance(entry, int):
        if not 0 <= entry <= MAX_ID:
            raise invalid(f"node id {entry} must be from 0 to {MAX_ID}")
        return ReplicaKey(entry)
    if entry.uuid is None:
        return ReplicaKey(entry.id)
    try:
        uuid = parse_uuid(entry.uuid)
    except ValueError as error:
        raise invalid(str(error)) from error
    return ReplicaKey(entry.id, uuid if uuid.int else None)
