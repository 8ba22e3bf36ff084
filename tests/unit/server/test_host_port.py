"""`host:port`, wherever users write it."""

import pytest

from quorum_node.client import NoLeader
from quorum_node.client.admin import QuorumAdminClient
from quorum_node.client.committed_log import CommittedLogError, parsed_addresses
from quorum_node.host_port import HostPort, parse_host_port
from quorum_node.quorumctl import main as quorumctl
from quorum_operator.settings import from_environment


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:1", HostPort("localhost", 1)),
        ("node-0.nodes.kafka.svc:65535", HostPort("node-0.nodes.kafka.svc", 65535)),
        ("192.0.2.1:9093", HostPort("192.0.2.1", 9093)),
        ("[2001:db8::1]:9093", HostPort("2001:db8::1", 9093)),
    ],
)
def test_address_survives_a_round_trip(text: str, expected: HostPort) -> None:
    assert parse_host_port(text) == expected
    assert str(expected) == text


INVALID = (
    "",
    "a",
    ":1",
    "a:",
    "a:0",
    "a:65536",
    "a:-1",
    "a:²",
    "a:٣",
    "a: 1",
    "::1:9093",
    "a b:1",
    "a:1\n",
    "a..b:1",
    "a" * 64 + ":1",
    "a." * 127 + "a:1",
)


@pytest.mark.parametrize("text", INVALID)
def test_invalid_address_is_quoted_in_the_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not") as refused:
        parse_host_port(text)
    assert repr(text) in str(refused.value)


def test_client_accepts_its_servers_in_one_text() -> None:
    with (
        QuorumAdminClient("127.0.0.1:1, 127.0.0.1:2", timeout_ms=1) as admin,
        pytest.raises(NoLeader),
    ):
        admin.describe_quorum()


def test_port_0_is_accepted_only_for_listening() -> None:
    assert parse_host_port("127.0.0.1:0", lowest_port=0) == HostPort("127.0.0.1", 0)
    with pytest.raises(ValueError, match=r"'0' in .* is not a port from 1"):
        parse_host_port("127.0.0.1:0")


@pytest.mark.parametrize("text", ["h:70000", "h:²", "::1:9093"])
def test_every_program_rejects_the_same_addresses(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="is not"):
        QuorumAdminClient([text])
    with pytest.raises(CommittedLogError, match="is not"):
        parsed_addresses(text)
    for name in ("METADATAQUORUM_OPERATOR_LISTEN", "METADATAQUORUM_OPERATOR_PAGE"):
        with pytest.raises(ValueError, match=f"{name}=.*is not"):
            from_environment({name: text})
    added = ["add-voter", "--id", "4", "--uuid", "AAAAAAAAAAAAAAAAAAAABA", "--controller", text]
    assert quorumctl.main(["--admin", "http://127.0.0.1:1", *added]) != 0
    assert repr(text) in capsys.readouterr().err
