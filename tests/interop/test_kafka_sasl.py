"""Stock Kafka's tools log in to our quorum by SASL/SCRAM, and make users who log in."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorum_node.client import QuorumAdminClient
from quorum_node.security.scram.mechanism import ScramMechanism
from support import stock_kafka
from support.client_properties import by_password
from support.sasl_quorum import PASSWORD, READER, READER_PASSWORD, USER, SaslQuorum, login_of

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslQuorum]:
    made = SaslQuorum(tmp_path_factory.mktemp("sasl"), 1, connections_max_reauth_ms="5000")
    with made:
        made.form()
        yield made


def properties(
    quorum: SaslQuorum,
    folder: Path,
    *,
    user: str = USER,
    password: str = PASSWORD,
    mechanism: str = "SCRAM-SHA-512",
    protocol: str = "SASL_SSL",
) -> Path:
    path = folder / f"{user}.properties"
    authorities = quorum.folder("admin") / "ca.crt"
    reported = by_password(user, password, authorities, mechanism=mechanism, protocol=protocol)
    path.write_text(f"{reported}default.api.timeout.ms=20000\nrequest.timeout.ms=10000\n")
    return path


def run(
    quorum: SaslQuorum, tool: str, config: Path, *arguments: str, listener: str = "TOOLS"
) -> "subprocess.CompletedProcess[str]":
    return stock_kafka.run_tool(
        tool,
        "--bootstrap-controller",
        quorum.servers(listener)[0],
        "--command-config",
        str(config),
        *arguments,
    )


def test_stock_tool_logs_in(quorum: SaslQuorum, tmp_path: Path) -> None:
    """By SASL_SSL, without a certificate: Java and our server agree on every byte of the exchange."""
    done = run(
        quorum, stock_kafka.METADATA_QUORUM, properties(quorum, tmp_path), "describe", "--status"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert quorum.cluster_id in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(
    ("listener", "protocol"), [("TOOLS", "SASL_SSL"), ("BARE", "SASL_PLAINTEXT")]
)
def test_stock_tool_describes_the_quorum(
    quorum: SaslQuorum, tmp_path: Path, mechanism: str, listener: str, protocol: str
) -> None:
    config = properties(quorum, tmp_path, mechanism=mechanism, protocol=protocol)
    done = run(
        quorum, stock_kafka.METADATA_QUORUM, config, "describe", "--status", listener=listener
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert quorum.cluster_id in done.stdout


@pytest.mark.long
def test_user_created_by_this_client_logs_in_with_a_stock_tool(
    quorum: SaslQuorum, tmp_path: Path
) -> None:
    """Stock tools change users through a broker alone; it passes the same request on."""
    with QuorumAdminClient(quorum.servers("BARE"), 20_000, None, login_of()) as client:
        client.set_password("dora", "doras", ScramMechanism.SHA_256, 8192)
    config = properties(quorum, tmp_path, user="dora", password="doras", mechanism="SCRAM-SHA-256")
    done = run(quorum, stock_kafka.METADATA_QUORUM, config, "describe", "--status")
    assert "ClusterAuthorizationException" in done.stdout + done.stderr, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("user", [USER, "nobody"])
def test_wrong_password_of_a_stock_tool_gets_the_error_of_stock_kafka(
    quorum: SaslQuorum, tmp_path: Path, user: str
) -> None:
    config = properties(quorum, tmp_path, user=user, password="wrong")
    done = run(quorum, stock_kafka.METADATA_QUORUM, config, "describe", "--status")
    text = done.stdout + done.stderr
    assert done.returncode != 0, text
    assert "SaslAuthenticationException" in text
    assert "due to invalid credentials with SASL mechanism SCRAM-SHA-512" in text


@pytest.mark.long
def test_user_without_rights_gets_an_authorization_error_of_the_api(
    quorum: SaslQuorum, tmp_path: Path
) -> None:
    config = properties(quorum, tmp_path, user=READER, password=READER_PASSWORD)
    done = run(quorum, stock_kafka.METADATA_QUORUM, config, "describe", "--status")
    text = done.stdout + done.stderr
    assert done.returncode != 0, text
    assert "ClusterAuthorizationException" in text
