"""Stock Kafka's tools against a quorum with TLS, with PEM files as Kafka reads them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import stock_kafka
from support.client_properties import by_certificate
from support.patience import PATIENT
from support.tls_quorum import TlsQuorum, certificate_of, new_authority, write_folder

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsQuorum]:
    with TlsQuorum(tmp_path_factory.mktemp("tls"), 3, properties=PATIENT) as made:
        made.form()
        yield made


def describe(quorum: TlsQuorum, folder: Path) -> tuple[int, str]:
    """Exit code and output of kafka-metadata-quorum, with the certificate in a folder."""
    config = folder / "client.properties"
    config.write_text(
        f"{by_certificate(folder)}default.api.timeout.ms=60000\nrequest.timeout.ms=20000\n"
    )
    done = stock_kafka.run_tool(
        stock_kafka.METADATA_QUORUM,
        "--bootstrap-controller",
        f"127.0.0.1:{quorum.leader.port}",
        "--command-config",
        str(config),
        "describe",
        "--status",
    )
    return done.returncode, done.stdout + done.stderr


def test_stock_tool_describes_the_quorum_with_a_certificate(quorum: TlsQuorum) -> None:
    code, text = describe(quorum, quorum.folder("admin"))
    assert code == 0, text
    assert quorum.cluster_id in text
    assert "LeaderId" in text


@pytest.mark.long
def test_stock_tool_with_a_certificate_of_another_authority_is_rejected(
    quorum: TlsQuorum, tmp_path: Path
) -> None:
    foreign = certificate_of("admin", None, new_authority("ca-9"))
    write_folder(tmp_path, foreign, quorum.ca.certificate)
    code, text = describe(quorum, tmp_path)
    assert code != 0, text
    assert "SslAuthenticationException" in text, (
        "the tool can't tell a refusal from a lost connection"
    )
    line = "its certificate was not issued by an authority"
    assert any(line in node.log_text for node in quorum.nodes.values())
