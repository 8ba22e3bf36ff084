"""Real processes with clients that log in by SASL/SCRAM: which logins succeed, as which principal, and which requests are rejected."""

import base64
import contextlib
import copy
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from quorum_node.client import (
    AuthenticationFailed,
    AuthorizationFailed,
    NoLeader,
    QuorumAdminClient,
    RequestRefused,
)
from quorum_node.client.connections import Connections
from quorum_node.client_tls import ClientTls, ClientTlsError, security_of_command_config
from quorum_node.protocol import apis, elections
from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.frames import decode_response, encode_request, read_frame
from quorum_node.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from quorum_node.security.scram.mechanism import ScramMechanism
from support.attacked_writes import Writer, measure
from support.client_properties import by_password
from support.local_quorum import wait_until
from support.one_request import opened
from support.sasl_quorum import (
    PASSWORD,
    READER,
    READER_PASSWORD,
    USER,
    SaslQuorum,
    login_of,
)
from support.scram_client import first_message

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslQuorum]:
    made = SaslQuorum(tmp_path_factory.mktemp("sasl"), 2)
    with made:
        made.form()
        yield made
        made.close()
        for node in made.nodes.values():
            print(node.log_text[-4000:])


def tls_of(quorum: SaslQuorum, listener: str) -> ClientTls | None:
    return quorum.client_tls if listener == "TOOLS" else None


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("listener", ["TOOLS", "BARE"])
def test_first_scram_user_logs_in_and_is_authorized(
    quorum: SaslQuorum, listener: str, mechanism: ScramMechanism
) -> None:
    tls, login = tls_of(quorum, listener), login_of(mechanism=mechanism)
    with QuorumAdminClient(quorum.servers(listener), 20_000, tls, login) as client:
        found = client.describe_quorum()
    assert list(found.current_voters) == [1, 2]


def test_authenticated_user_without_rights_is_rejected(quorum: SaslQuorum) -> None:
    login = login_of(READER, READER_PASSWORD)
    with (
        QuorumAdminClient(quorum.servers("BARE"), 10_000, None, login) as client,
        pytest.raises((AuthorizationFailed, RequestRefused, NoLeader)),
    ):
        client.describe_quorum()

    def is_logged() -> bool:
        texts = [node.log_text for node in quorum.nodes.values()]
        return any("authorizer: denied" in text and f"User:{READER}" in text for text in texts)

    wait_until(is_logged, "a node says so")


@pytest.mark.parametrize("user", [USER, "nobody"])
@pytest.mark.parametrize("listener", ["TOOLS", "BARE"])
def test_wrong_password_and_unknown_user_get_the_same_error(
    quorum: SaslQuorum, listener: str, user: str
) -> None:
    login = login_of(user, "a-wrong-one")
    with (
        QuorumAdminClient(
            quorum.servers(listener), 20_000, tls_of(quorum, listener), login
        ) as client,
        pytest.raises(AuthenticationFailed) as raised,
    ):
        client.describe_quorum()
    assert str(raised.value) == (
        "SASL_AUTHENTICATION_FAILED: Authentication failed during authentication due to invalid"
        " credentials with SASL mechanism SCRAM-SHA-512"
    )
    line = f"is refused at listener {listener}: '{user}' for SCRAM-SHA-512: "
    wait_until(lambda: line in texts(quorum), "a node says so")
    assert "a-wrong-one" not in texts(quorum)


def texts(quorum: SaslQuorum) -> str:
    """What all nodes have logged."""
    return "".join(node.log_text for node in quorum.nodes.values())


def challenge_of(quorum: SaslQuorum, mechanism: ScramMechanism, user: str) -> tuple[bytes, int]:
    """Salt and iterations that node 1 tells a client that says it is this user."""
    shake = SaslHandshakeRequest(mechanism=mechanism.sasl_name)
    token = SaslAuthenticateRequest(auth_bytes=first_message(user))
    with opened(("127.0.0.1", quorum.ports[1]["BARE"])) as connection:
        connection.sendall(encode_request(apis.SASL_HANDSHAKE, 1, 1, "x", shake))
        assert decode_response(apis.SASL_HANDSHAKE, 1, read_frame(connection.recv, 1000))
        connection.sendall(encode_request(apis.SASL_AUTHENTICATE, 2, 2, "x", token))
        answer = decode_response(apis.SASL_AUTHENTICATE, 2, read_frame(connection.recv, 1000))
    assert isinstance(answer, SaslAuthenticateResponse)
    fields = dict(each.split(b"=", 1) for each in bytes(answer.auth_bytes).split(b","))
    return base64.b64decode(fields[b"s"]), int(fields[b"i"])


def test_challenge_does_not_reveal_whether_a_user_exists(quorum: SaslQuorum) -> None:
    """Users from the first file, users that were set later and unknown ones: the same form of salt, and the same iterations."""
    set_password(quorum, "emil", "emils")
    with QuorumAdminClient(quorum.servers("BARE"), 20_000, None, login_of()) as client:
        client.set_password("emil", "emils", SHA_256, iterations=8192)
    form = re.compile(rb"[0-9a-z]{20,26}")
    for mechanism, iterations in ((SHA_512, 4096), (SHA_256, 8192)):
        known = [challenge_of(quorum, mechanism, user) for user in (USER, "emil")]
        unknown = [challenge_of(quorum, mechanism, user) for user in ("nobody", "nobody", "none")]
        found = [*known, *unknown]
        assert [form.fullmatch(salt) is None for salt, _ in found] == [False] * 5, found
        assert [each for _, each in found] == [iterations] * 5
        assert unknown[0] == unknown[1] != unknown[2]


@pytest.mark.requirement("K631-12")
def test_unauthenticated_client_is_disconnected(quorum: SaslQuorum) -> None:
    with (
        QuorumAdminClient(quorum.servers("BARE"), 3000) as client,
        pytest.raises(NoLeader),
    ):
        client.describe_quorum()
    wait_until(lambda: "before the client has logged in" in texts(quorum), "a node says so")


@pytest.mark.requirement("K631-12")
def test_user_is_never_treated_as_a_node_even_as_super_user(quorum: SaslQuorum) -> None:
    """Vote requests of a logged-in user are rejected, whatever rights the user has otherwise."""
    made = Connections("me", None, login_of())
    address = ("127.0.0.1", quorum.ports[1]["BARE"])
    part = elections.VoteRequestPartition(
        partition_index=0, replica_epoch=1000, replica_id=2, last_offset_epoch=0, last_offset=0
    )
    topic = elections.VoteRequestTopic(topic_name="__cluster_metadata", partitions=(part,))
    request = elections.VoteRequest(cluster_id=quorum.cluster_id, topics=(topic,))
    answer = made.ask(address, apis.VOTE, 0, request, elections.VoteResponse, 20.0)
    made.close()
    assert answer.error_code == 31
    line = "nodes need certificates and can't log in by SASL"
    wait_until(lambda: line in quorum.nodes[1].log_text, "the node says so")


def set_password(quorum: SaslQuorum, user: str, password: str) -> None:
    with QuorumAdminClient(quorum.servers("BARE"), 20_000, None, login_of()) as client:
        client.set_password(user, password)


def test_password_change_closes_sessions_of_the_old_password(quorum: SaslQuorum) -> None:
    set_password(quorum, "carol", "carols-first")
    versions = apis.API_VERSIONS
    body, kind = ApiVersionsRequest(), ApiVersionsResponse
    addresses = [("127.0.0.1", ports["BARE"]) for ports in quorum.ports.values()]
    made = Connections("me", None, login_of("carol", "carols-first"))

    def asked(connections: Connections) -> bool:
        for address in addresses:
            connections.ask(address, versions, 0, body, kind, 20.0)
        return True

    def can_log_in(connections: Connections) -> bool:
        try:
            return asked(connections)
        except AuthenticationFailed:  # a follower has not received the password yet
            return False

    wait_until(lambda: can_log_in(made), "carol is known everywhere")
    set_password(quorum, "carol", "carols-second")

    def has_to_log_in_again() -> bool:
        try:
            return not asked(made)
        except AuthenticationFailed:
            return True

    wait_until(has_to_log_in_again, "what was opened with the first password has ended")
    with_second = Connections("me", None, login_of("carol", "carols-second"))
    wait_until(lambda: can_log_in(with_second), "the second password is known")
    made.close()
    with_second.close()


def test_deleted_user_is_rejected_and_disconnected(quorum: SaslQuorum) -> None:
    set_password(quorum, "dora", "doras")
    with QuorumAdminClient(quorum.servers("BARE"), 20_000, None, login_of()) as client:
        client.delete_password("dora")
        with pytest.raises(RequestRefused, match="RESOURCE_NOT_FOUND"):
            client.delete_password("dora")
        with pytest.raises(RequestRefused, match="UNACCEPTABLE_CREDENTIAL"):
            client.set_password("dora", "doras", iterations=1)


def test_properties_of_the_kafka_tools_work(quorum: SaslQuorum, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(by_password(USER, PASSWORD, quorum.folder("admin") / "ca.crt"))
    reported = security_of_command_config(path)
    assert PASSWORD not in repr(reported)
    with QuorumAdminClient(quorum.servers("TOOLS"), 20_000, reported.tls, reported.sasl) as client:
        assert client.describe_quorum().current_voters
    path.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.location=/x\n"
    )
    with pytest.raises(ClientTlsError, match=r"sasl.mechanism=PLAIN: write one of"):
        security_of_command_config(path)


def hello() -> bytes:
    """The first message of a client of TLS."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def damaged(random: Random, whole: bytes) -> bytes:
    data = bytearray(whole)
    for _ in range(random.choice((0, 1, 3, 20))):
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data[: random.randrange(len(data) + 1)]) + random.randbytes(random.choice((0, 9)))


@pytest.mark.parametrize("name", ["CONTROLLER", "TOOLS", "BARE"])
def test_invalid_handshakes_and_logins_affect_no_other_client(
    quorum: SaslQuorum, name: str
) -> None:
    """Of TLS at two listeners, of SASL at the third: cut off, changed, or with more behind."""
    random, node = Random(17), quorum.nodes[1]
    body = SaslHandshakeRequest(mechanism="SCRAM-SHA-512")
    shake = encode_request(apis.SASL_HANDSHAKE, 1, 1, "me", body)
    first = SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc")
    login = shake + encode_request(apis.SASL_AUTHENTICATE, 2, 2, "me", first)
    whole = login if name == "BARE" else hello()
    port = node.port if name == "CONTROLLER" else quorum.ports[1][name]
    pid = node.process.pid if node.process else 0
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            made = stack.enter_context(socket.create_connection(("127.0.0.1", port), 5.0))
            with contextlib.suppress(OSError):
                made.sendall(damaged(random, whole))
        with QuorumAdminClient(
            quorum.servers("TOOLS"), 20_000, quorum.client_tls, login_of()
        ) as client:
            assert client.describe_quorum().current_voters
    quorum.put("still", name)
    assert node.process is not None
    assert (node.is_running, node.process.pid) == (True, pid)
    assert "internal error" not in node.log_text
    assert "Traceback" not in node.log_text


@pytest.mark.long
def test_commits_continue_under_a_flood_of_failed_logins(quorum: SaslQuorum) -> None:
    """The calmest of three rounds counts: other work on the machine only adds to a round."""
    quorum.put("flooded", "v")
    leader = quorum.leader
    listener = copy.copy(leader)
    listener.port = quorum.ports[leader.id]["BARE"]
    writer = Writer(f"{leader.admin_url}/v1/configs/topic/t/z", quorum.client)
    ratios: list[float] = []
    while len(ratios) < 3 and not any(each <= 2 for each in ratios):
        measured = measure("failed-logins", listener, writer)
        print(measured)
        ratios.append(measured.ratio)
    assert writer.failed == []
    assert min(ratios) <= 2


def test_members_elect_and_users_log_in_after_a_restart_of_all_members(quorum: SaslQuorum) -> None:
    """Members need no credentials from the log, and the file of the first users is not needed any more."""
    quorum.users.unlink(missing_ok=True)
    for node in quorum.nodes.values():
        node.kill()
    for node in quorum.nodes.values():
        node.start()
    quorum.wait_leader()
    with QuorumAdminClient(quorum.servers("BARE"), 20_000, None, login_of()) as client:
        assert client.describe_quorum().current_voters
