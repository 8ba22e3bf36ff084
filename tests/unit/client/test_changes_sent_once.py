"""A change whose answer was lost is repeated, and the refusal of its repetition means that it was made."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest

from quorum_node.client import QuorumAdminClient
from quorum_node.protocol import apis, scram, voters
from quorum_node.protocol.discover_brokers import DiscoverBrokersResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import decode_request, encode_response_parts, read_frame
from quorum_node.schema.schema import MalformedMessage, Message

REPLICA = UUID(int=5)


class Leader:
    """Carries out the first change and closes the connection before its answer; refuses later ones as already made."""

    def __init__(self, refusal: Message) -> None:
        self._refusal = refusal
        self.changes = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        while True:
            try:
                request = decode_request(read_frame(connection.recv, 1 << 20))
            except (OSError, MalformedMessage):
                return
            if request.api is not apis.DISCOVER_BROKERS:
                self.changes += 1
                if self.changes == 1:
                    return
            found = self._discovered() if request.api is apis.DISCOVER_BROKERS else self._refusal
            parts = encode_response_parts(
                request.api, request.version, request.correlation_id, found
            )
            connection.sendall(b"".join(map(bytes, parts)))

    def _discovered(self) -> DiscoverBrokersResponse:
        return DiscoverBrokersResponse(
            error_code=0,
            cluster_id="c",
            leader_id=1,
            leader_epoch=1,
            leader_host="127.0.0.1",
            leader_port=self.port,
            brokers=(),
        )


@contextmanager
def leading(refusal: Message) -> Iterator[Leader]:
    leader = Leader(refusal)
    try:
        yield leader
    finally:
        leader.close()


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
def test_change_that_was_made_before_its_connection_broke_is_no_error(
    change: Callable[[QuorumAdminClient], None], refusal: Message
) -> None:
    with (
        leading(refusal) as leader,
        QuorumAdminClient([f"127.0.0.1:{leader.port}"], timeout_ms=10_000) as client,
    ):
        change(client)
    assert leader.changes == 2
