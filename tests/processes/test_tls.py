"""Real processes with TLS: they form a quorum, serve, and reject peers without a valid certificate."""

import contextlib
import json
import socket
import ssl
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from quorum_node.client import NoLeader, QuorumAdminClient
from quorum_node.client_tls import tls_of_folder
from quorum_node.protocol.api_versions import ApiVersionsRequest
from quorum_node.protocol.apis import API_VERSIONS
from quorum_node.protocol.frames import encode_request
from quorum_node.quorumctl.main import main as quorumctl
from support.client_properties import by_certificate
from support.generated_certificates import Issued
from support.local_quorum import LocalNode, wait_until
from support.patience import PATIENT
from support.tls_quorum import (
    TlsQuorum,
    certificate_of,
    client_context,
    new_authority,
    write_folder,
)

HELLO = encode_request(
    API_VERSIONS,
    3,
    1,
    "me",
    ApiVersionsRequest(client_software_name="x", client_software_version="1"),
)


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsQuorum]:
    with TlsQuorum(tmp_path_factory.mktemp("tls"), 3, properties=PATIENT) as made:
        made.form()
        yield made
        made.close()
        for node in made.nodes.values():
            print(node.log_text[-4000:])


def answered(port: int, context: ssl.SSLContext | None) -> bool:
    """Whether a request gets an answer. In TLS 1.3 a client gets the rejection when it reads."""
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(socket.create_connection(("127.0.0.1", port), 5.0))
            if context is not None:
                secured = context.wrap_socket(made, server_hostname="127.0.0.1")
                made = stack.enter_context(secured)
            made.sendall(HELLO)
            return bool(made.recv(4))
        except OSError:
            return False


def warnings(node: LocalNode, since: int) -> list[str]:
    """Log messages of the node above the level of information."""
    lines = [json.loads(line) for line in node.log_text[since:].splitlines()]
    return [line["message"] for line in lines if line["level"] != "info"]


def test_three_members_with_tls_form_elect_and_write(quorum: TlsQuorum) -> None:
    assert quorum.voter_ids() == [1, 2, 3]
    quorum.put("a", "1")
    assert quorum.get("a") == "1"
    assert all(warnings(node, 0) == [] for node in quorum.nodes.values())
    shown = quorum.local(2)["tls"]
    assert "member-2" in shown["certificate"]["subject"]
    assert shown["issuerSha256"] == shown["trusted"][0]["sha256"]


DAY = timedelta(days=1)
FOREIGN = new_authority("ca-9")


def shown_by(name: str, quorum: TlsQuorum) -> Issued:
    match name:
        case "another authority":
            return certificate_of("member", 2, FOREIGN)
        case "expired":
            return certificate_of("member", 2, quorum.ca, start=-2 * DAY, end=-DAY)
        case _:
            return certificate_of("member", 2, quorum.ca, start=DAY, end=2 * DAY)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nothing", "it shows no certificate, and this listener requires one"),
        ("another authority", "its certificate was not issued by an authority in the truststore"),
        ("expired", "its certificate has expired; if it was valid, check the clocks"),
        ("not yet valid", "its certificate is not valid yet: check the clocks"),
        ("clear text", "it does not use TLS: is it configured as PLAINTEXT?"),
    ],
)
def test_peer_without_a_valid_certificate_is_logged_in_one_line(
    quorum: TlsQuorum, tmp_path: Path, name: str, why: str
) -> None:
    """A clock that is off by a day, here or where it was issued, looks like an expired certificate or one that is not valid yet."""
    node = quorum.leader
    since = len(node.log_text)
    ca = quorum.folder("admin") / "ca.crt"
    context = None
    if name == "nothing":
        context = client_context(None, ca)
    elif name != "clear text":
        write_folder(tmp_path, shown_by(name, quorum), quorum.ca.certificate)
        context = client_context(tmp_path, ca)
    assert answered(node.port, client_context(quorum.folder("admin"), ca))
    for _ in range(3):
        assert not answered(node.port, context)

    def refusals() -> list[str]:
        """A node that is starved by other work on the machine may warn of something else."""
        return [each for each in warnings(node, since) if "is refused at listener" in each]

    wait_until(refusals, "the node says so")
    (line,) = refusals()
    assert line.startswith(f"127.0.0.1 is refused at listener CONTROLLER: {why}")
    assert answered(node.port, client_context(quorum.folder("admin"), ca))


def test_http_accepts_a_certificate_or_the_token(quorum: TlsQuorum) -> None:
    node = quorum.leader
    path = "/v1/configs/topic/t/over-http"
    body = {"value": "1", "timeoutMs": 5000}

    def is_accepted(client: httpx.Client) -> bool:
        """The leader may change meanwhile, which is no refusal of the client."""
        answer = client.put(quorum.leader.admin_url + path, json=body)
        assert answer.status_code not in (401, 403), answer.text
        return answer.is_success

    with quorum.client_of(None) as stranger:
        wait_until(lambda: is_accepted(stranger), "a write with the token")
        stranger.headers.pop("authorization")
        assert stranger.put(node.admin_url + path, json=body).status_code == 401
    with quorum.client_of("admin") as admin:
        admin.headers.pop("authorization")
        wait_until(lambda: is_accepted(admin), "a write with the certificate")
        with pytest.raises(httpx.TransportError):
            admin.get(f"http://127.0.0.1:{node.admin_port}/livez")


def test_quorumctl_connects_with_a_certificate(
    quorum: TlsQuorum, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = quorum.folder("admin")
    config = tmp_path / "client.properties"
    config.write_text(by_certificate(folder))
    follower = quorum.followers[0]
    for options in (["--tls", str(folder)], ["--command-config", str(config)]):
        at = ["--admin", follower.admin_url, *options]
        assert quorumctl([*at, "put", "topic/t/by-ctl", "1"]) == 0, (
            "the client was not redirected to the leader by TLS"
        )
        assert quorumctl([*at, "describe", "replication"]) == 0
        capsys.readouterr()
        assert (
            quorumctl(["--admin", f"http://127.0.0.1:{follower.admin_port}", *options, "list"]) == 1
        )
        capsys.readouterr()
    assert quorumctl(["--admin", follower.admin_url, "list"]) == 1
    assert "CERTIFICATE_VERIFY_FAILED" in capsys.readouterr().err
    empty = tmp_path / "empty"
    empty.mkdir()
    assert quorumctl(["--tls", str(empty), "list"]) == 1
    assert "ca.crt, the file of the trusted authorities, is missing" in capsys.readouterr().err


def test_admin_client_connects_with_a_certificate(quorum: TlsQuorum) -> None:
    server = f"127.0.0.1:{quorum.followers[0].port}"
    tls = tls_of_folder(quorum.folder("admin"))
    with QuorumAdminClient([server], tls=tls) as admin:
        found = admin.describe_quorum()
    assert sorted(found.current_voters) == [1, 2, 3]
    with QuorumAdminClient([server], timeout_ms=300) as stranger, pytest.raises(NoLeader):
        stranger.describe_quorum()
