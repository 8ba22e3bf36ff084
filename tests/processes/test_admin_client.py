"""The Python admin client, on Kafka's protocol, against real nodes."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest

from quorum_node.client import (
    AuthorizationFailed,
    NoLeader,
    QuorumAdminClient,
    RequestRefused,
)
from quorum_node.records.identity import Endpoint, ReplicaKey, parse_uuid
from support.local_quorum import LocalQuorum, wait_until
from support.ports import free_ports


def servers(quorum: LocalQuorum, *ids: int) -> list[str]:
    return [f"127.0.0.1:{quorum.nodes[each].port}" for each in ids or quorum.nodes]


def uuid_of(quorum: LocalQuorum, node_id: int) -> UUID:
    return parse_uuid(quorum.local(node_id)["replicaUuid"])


@pytest.mark.requirement("K595-22", "K595-24", "K595-27")
def test_describe_and_alter_work_through_any_server(shared_quorum: LocalQuorum) -> None:
    leader = shared_quorum.leader.id
    follower = next(node.id for node in shared_quorum.followers)
    with QuorumAdminClient(servers(shared_quorum, follower)) as admin:
        info = admin.describe_quorum()
        assert info.leader_id == leader
        assert set(info.current_voters) == {1, 2, 3}
        assert info.current_voters[2].key == ReplicaKey(2, uuid_of(shared_quorum, 2))
        assert info.current_voters[leader].log_end_offset is not None
        assert info.target_voters == {}
        altered = admin.alter_quorum([1, 2, 9])
        assert altered.target_voters == (1, 2, 9)
        assert altered.leader_id == leader
        assert admin.alter_quorum([9, 2, 1]).voters_offset == altered.voters_offset
        info = admin.describe_quorum()
        assert set(info.target_voters) == {1, 2, 9}
        assert info.target_voters[9].log_end_offset is None, "an unconfirmed value was read"
        assert admin.alter_quorum(None).target_voters is None
        assert admin.describe_quorum().target_voters == {}
        key = ReplicaKey(2, uuid_of(shared_quorum, 2))
        admin.alter_quorum([1, key, 3])
        assert admin.describe_quorum().target_voters == {}, "the voters differ"


@pytest.mark.requirement("K595-27")
def test_non_retriable_error_is_raised_immediately(shared_quorum: LocalQuorum) -> None:
    with QuorumAdminClient(servers(shared_quorum)) as admin:
        with pytest.raises(RequestRefused, match="an id of its own") as refused:
            admin.alter_quorum([1, 1])
        assert refused.value.code == "INVALID_REQUEST"
        with pytest.raises(RequestRefused, match="VOTER_NOT_FOUND"):
            admin.remove_voter(9, UUID(int=9))
        with pytest.raises(RequestRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
            admin.describe_quorum(partition=7)


@pytest.mark.slow
@pytest.mark.requirement("K595-27")
def test_single_changes_survive_a_leader_failure(make_quorum) -> None:
    quorum = make_quorum(4, initial_voters=3, formed=True)
    quorum.wait_caught_up(4)
    with QuorumAdminClient(servers(quorum, 1, 2, 3), timeout_ms=60_000) as admin:
        four = quorum.nodes[4]
        endpoints = [
            Endpoint("CONTROLLER", "127.0.0.1", four.port),
            Endpoint("ADMIN", "127.0.0.1", four.admin_port),
        ]
        admin.add_voter(4, uuid_of(quorum, 4), endpoints)
        assert set(admin.describe_quorum().current_voters) == {1, 2, 3, 4}
        with pytest.raises(RequestRefused, match="DUPLICATE_VOTER"):
            admin.add_voter(4, uuid_of(quorum, 4), endpoints)
        admin.remove_voter(4, uuid_of(quorum, 4))
        assert set(admin.describe_quorum().current_voters) == {1, 2, 3}
        killed = quorum.leader
        killed.kill()
        wanted = {1, 2, 3, 4} - {killed.id}
        admin.alter_quorum(wanted)
        wait_until(lambda: set(admin.describe_quorum().current_voters) == wanted, "it is done")
        wait_until(lambda: admin.describe_quorum().target_voters == {}, "the target is cleared")


@pytest.mark.requirement("K595-24", "K595-27")
def test_closed_listener_is_reported_as_authorization_error(make_quorum) -> None:
    quorum = make_quorum(1, **{"admin.membership.on.controller.listener": "false"}, formed=True)
    with QuorumAdminClient(servers(quorum)) as admin:
        for change in (
            lambda: admin.alter_quorum([1, 2]),
            lambda: admin.add_voter(2, UUID(int=2), [Endpoint("CONTROLLER", "h", 1)]),
            lambda: admin.remove_voter(1, UUID(int=2)),
        ):
            with pytest.raises(AuthorizationFailed, match="admin API"):
                change()
        assert set(admin.describe_quorum().current_voters) == {1}, "reading is allowed"


@contextmanager
def chatterbox() -> Iterator[int]:
    """A server of another kind: it answers everything with the same line."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            try:
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(1000)
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(1000))
            except OSError:
                return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def test_unreachable_quorum_is_reported_with_the_last_error() -> None:
    (port,) = free_ports(1)
    with (
        QuorumAdminClient([f"127.0.0.1:{port}"], timeout_ms=2000) as admin,
        pytest.raises(NoLeader, match=f"127.0.0.1:{port}: .*refused"),
    ):
        admin.describe_quorum()


def test_server_that_is_not_a_node_is_rejected(shared_quorum: LocalQuorum) -> None:
    with chatterbox() as port:
        with (
            QuorumAdminClient([f"127.0.0.1:{port}"], timeout_ms=2000) as admin,
            pytest.raises(NoLeader, match="is not a server of the expected protocol"),
        ):
            admin.describe_quorum()
        with QuorumAdminClient([f"127.0.0.1:{port}", *servers(shared_quorum)]) as admin:
            assert admin.describe_quorum().leader_id in {1, 2, 3}, "the next address was not tried"


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:x"])
def test_invalid_addresses_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        QuorumAdminClient([text])
    with pytest.raises(ValueError, match="bootstrap_servers is empty"):
        QuorumAdminClient([])
