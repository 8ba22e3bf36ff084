"""A change whose answer was lost is repeated, and the refusal of its repetition means that it was made.

The refusal of the first request that was sent is one, whatever happened before it.
"""

import asyncio
import socket
from collections.abc import Callable
from uuid import UUID

import pytest

from quorum_node.client import NoLeader, QuorumAdminClient, RequestRefused
from quorum_node.protocol import scram, voters
from quorum_node.protocol.apis import DISCOVER_BROKERS
from quorum_node.protocol.discover_brokers import DiscoverBrokersResponse
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


@pytest.mark.parametrize(("change", "refusal"), CHANGES)
@pytest.mark.parametrize("before", ["no leader yet", "a leader that is gone"])
async def test_first_request_that_is_sent_may_be_refused(
    change: Callable[[QuorumAdminClient], None], refusal: Message, before: str
) -> None:
    """No request was sent while no leader was known, or while none could be reached."""
    discovered: list[Request] = []
    changes: list[Request] = []

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        body: Message = refusal
        if request.api is DISCOVER_BROKERS:
            discovered.append(request)
            is_first = len(discovered) == 1
            body = DiscoverBrokersResponse(
                error_code=0,
                cluster_id="c",
                brokers=(),
                leader_id=-1 if is_first and before == "no leader yet" else 1,
                leader_epoch=1,
                leader_host="127.0.0.1",
                leader_port=closed_port() if is_first else peer.endpoint.port,
            )
        else:
            changes.append(request)
        writer.write(encode_response(request.api, request.version, request.correlation_id, body))

    peer = Peer(answer)
    await peer.start()
    with (
        QuorumAdminClient(f"127.0.0.1:{peer.endpoint.port}", timeout_ms=10_000) as client,
        pytest.raises(RequestRefused),
    ):
        await asyncio.to_thread(change, client)
    peer.close()
    assert (len(discovered), len(changes)) == (2, 1)


@pytest.mark.parametrize(("change", "refusal"), CHANGES)
def test_change_that_was_never_sent_has_no_unknown_outcome(
    change: Callable[[QuorumAdminClient], None], refusal: Message
) -> None:
    with (
        QuorumAdminClient(f"127.0.0.1:{closed_port()}", timeout_ms=200) as client,
        pytest.raises(NoLeader, match="Nothing was changed"),
    ):
        change(client)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port
