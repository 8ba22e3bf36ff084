"""A change whose answer was lost is repeated, and the refusal of its repetition means that it was made."""

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from quorum_node.client import QuorumAdminClient
from quorum_node.protocol import scram, voters
from quorum_node.protocol.apis import DISCOVER_BROKERS
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import Request, encode_response
from quorum_node.schema.schema import Message
from support.peer_stand_in import Peer

REPLICA = UUID(int=5)
CHANGES: list[tuple[Callable[[QuorumAdminClient], None], Message]] = [
    (
        lambda client: client.remove_voter(2, REPLICA),
        voters.RemoveRaftVoterResponse(error_code=ErrorCode.VOTER_NOT_FOUND, error_message="none"),
    ),
    (
        lambda client: client.add_voter(2, REPLICA, ()),
        voters.AddRaftVoterResponse(error_code=ErrorCode.DUPLICATE_VOTER, error_message="there"),
    ),
    (
        lambda client: client.delete_password("alice"),
        scram.AlterUserScramCredentialsResponse(
            results=(
                scram.AlterUserScramCredentialsResult(
                    user="alice", error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message="none"
                ),
            )
        ),
    ),
]


@pytest.mark.parametrize(("change", "refusal"), CHANGES)
async def test_change_that_was_made_before_its_connection_broke_is_no_error(
    change: Callable[[QuorumAdminClient], None], refusal: Message
) -> None:
    """The leader makes the first change and closes the connection before its answer. Later ones it refuses as already made."""
    changes: list[Request] = []

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        body: Message = peer.as_leader()
        if request.api is not DISCOVER_BROKERS:
            changes.append(request)
            if len(changes) == 1:
                writer.close()
                return
            body = refusal
        writer.write(encode_response(request.api, request.version, request.correlation_id, body))

    peer = Peer(answer)
    await peer.start()
    with QuorumAdminClient(f"127.0.0.1:{peer.endpoint.port}", timeout_ms=10_000) as client:
        await asyncio.to_thread(change, client)
    peer.close()
    assert len(changes) == 2
