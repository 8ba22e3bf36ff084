"""A real node in the loop: who becomes a voter and who registers as a broker know of each other (K631-01)."""

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft import messages as raft
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import Endpoint, ReplicaKey
from support.broker_requests import registration
from support.hosted_moves import Moves, moving_partitions
from support.hosted_node import ME, NODE_ID

pytestmark = pytest.mark.requirement("K631-01")

NEWCOMER = ReplicaKey(50, UUID(int=50))
HERE = (Endpoint(CONTROLLER, "127.0.0.1", 1),)


def changed(moves: Moves, request: raft.Request) -> "asyncio.Future[raft.VoterChangeResponse]":
    """Ask the replica to change its voters."""
    answer: asyncio.Future[raft.VoterChangeResponse] = asyncio.get_running_loop().create_future()
    moves.node.hosted.first.request(request, answer.set_result)  # type: ignore[arg-type]
    return answer


async def register(moves: Moves, node_id: int) -> int:
    """A broker's error."""
    error: int = (await moves.ask(registration(node_id, cluster_id="c"))).error_code
    return error


async def test_broker_id_is_rejected_in_every_voter_change(tmp_path: Path) -> None:
    async with moving_partitions(tmp_path) as moves:
        broker = ReplicaKey(1, UUID(int=1))
        me = ReplicaKey(NODE_ID, ME)
        for request in (
            raft.AddVoterRequest(None, broker, HERE, 1000),
            raft.AddVoterRequest(None, broker, HERE, 1000, ack_when_committed=False),
            raft.AlterQuorumRequest(None, (me, broker), 1000),
            raft.AlterQuorumRequest(None, (me, ReplicaKey(1)), 1000),
        ):
            answer = await changed(moves, request)
            assert answer.error is RaftError.NODE_ID_IN_USE
            assert "broker 1 is registered" in answer.message
            assert answer.leader.leader_id == NODE_ID


async def test_id_of_a_target_voter_is_rejected_for_brokers(tmp_path: Path) -> None:
    async with moving_partitions(tmp_path) as moves:
        target = (ReplicaKey(NODE_ID, ME), ReplicaKey(NEWCOMER.id))
        answer = await changed(moves, raft.AlterQuorumRequest(None, target, 5000))
        assert answer.error is RaftError.NONE, answer
        assert await register(moves, NEWCOMER.id) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        answer = await changed(moves, raft.AlterQuorumRequest(None, None, 5000))
        assert answer.error is RaftError.NONE, answer
        assert await register(moves, NEWCOMER.id) == ErrorCode.NONE


async def test_id_of_a_voter_being_added_is_rejected_for_brokers(tmp_path: Path) -> None:
    async with moving_partitions(tmp_path) as moves:
        changed(moves, raft.AddVoterRequest(None, NEWCOMER, HERE, 60_000))
        assert await register(moves, NEWCOMER.id) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
