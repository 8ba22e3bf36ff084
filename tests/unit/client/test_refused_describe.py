"""The admin client at a leader that does not let it describe the quorum."""

import asyncio

import pytest

from quorum_node.client import AuthorizationFailed, QuorumAdminClient
from quorum_node.protocol.apis import DISCOVER_BROKERS
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import Request, encode_response
from quorum_node.schema.schema import Message
from quorum_node.server.wire.refusals import refuse_request
from support.peer_stand_in import Peer


async def test_refusal_says_which_right_is_missing() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        body: Message
        asked = request.body
        assert asked is not None
        if request.api is DISCOVER_BROKERS:
            body = peer.as_leader()
        else:
            body = refuse_request(asked, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "")
        data = encode_response(request.api, request.version, request.correlation_id, body)
        writer.write(data)

    peer = Peer(answer)
    await peer.start()
    with (
        QuorumAdminClient(f"127.0.0.1:{peer.endpoint.port}") as admin,
        pytest.raises(AuthorizationFailed, match="DESCRIBE on the cluster"),
    ):
        await asyncio.to_thread(admin.describe_quorum)
    peer.close()
