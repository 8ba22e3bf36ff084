"""Certificates that can't be used, on a real node: each is one clear line in its log, and a metric; nothing is lost.

Whom TLS does not let in for other reasons is in `test_tls`, and who is dialled in `tests/unit/server/test_tls_peers.py`.
"""

import contextlib
import json
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quorum_node.security.tls.ssl_settings import REVOKED_KEY
from support.generated_certificates import Issued, issue
from support.local_quorum import LocalNode, wait_until
from support.tls_quorum import (
    TlsQuorum,
    certificate_of,
    client_context,
    new_authority,
    write_at_once,
    write_folder,
)

DAY = timedelta(days=1)
OTHER = new_authority("ca-9")


class RevokingQuorum(TlsQuorum):
    """With a file of revoked serials."""

    @property
    def revoked(self) -> Path:
        return self.root / "revoked"

    def properties_of(self, node: LocalNode) -> dict[str, str]:
        """See `LocalQuorum`."""
        self.revoked.touch()
        return {
            **super().properties_of(node),
            f"listener.name.controller.{REVOKED_KEY}": str(self.revoked),
        }


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RevokingQuorum]:
    with RevokingQuorum(tmp_path_factory.mktemp("tls"), 1) as made:
        made.form()
        yield made


def warnings(node: LocalNode, since: int) -> list[str]:
    lines = [json.loads(line) for line in node.log_text[since:].splitlines()]
    return [line["message"] for line in lines if line["level"] == "warning"]


def metric(quorum: TlsQuorum, name: str) -> float:
    """Of the port by which members dial each other; 0 if it is not there."""
    lines = quorum.client.get(f"{quorum.nodes[1].admin_url}/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{"))


def problem(quorum: TlsQuorum) -> str | None:
    reported = quorum.local(1)["tls"]["problem"]
    return None if reported is None else str(reported)


Wrong = Callable[[TlsQuorum], bytes]
"""What is wrong with a keystore."""


def cut_off(quorum: TlsQuorum) -> bytes:
    return certificate_of("member", 1, quorum.ca).keystore[:-30]


def of_two(quorum: TlsQuorum) -> bytes:
    one, two = (certificate_of("member", 1, quorum.ca) for _ in range(2))
    return Issued(one.certificate, two.key).keystore


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (cut_off, "ends inside of a block CERTIFICATE: it is being written, or is truncated"),
        (of_two, "contains a key that does not match its first certificate, CN=member-1"),
        (
            lambda quorum: (
                certificate_of("member", 1, quorum.ca, start=-2 * DAY, end=-DAY).keystore
            ),
            "holds CN=member-1, which expired at",
        ),
        (
            lambda quorum: certificate_of("member", 1, quorum.ca, start=DAY, end=2 * DAY).keystore,
            "holds CN=member-1, valid from",
        ),
        (
            lambda quorum: certificate_of("member", 1, OTHER).keystore,
            "has a chain that ends at CN=member-1, which is not trusted; trusted certificates: CN=ca-1",
        ),
        (
            lambda quorum: certificate_of("member", 2, quorum.ca).keystore,
            "member:2 is not that of member 1",
        ),
        (lambda quorum: b"", "is empty"),
    ],
    ids=["half-written", "mismatched", "expired", "not-yet-valid", "wrong-ca", "wrong-id", "empty"],
)
def test_unusable_keystore_is_reported_once_and_the_old_pair_stays_in_use(
    quorum: TlsQuorum, wrong: Wrong, why: str
) -> None:
    """Where a clock may be the reason its time is in the line."""
    node, store = quorum.nodes[1], quorum.folder("1") / "keystore.pem"
    good, since = store.read_bytes(), len(node.log_text)
    shown = quorum.local(1)["tls"]["certificate"]["sha256"]
    write_at_once(store, wrong(quorum))
    reported = wait_until(lambda: problem(quorum), "the node says so")
    assert why in reported
    name = "metadata_quorum_certificate_problem"
    wait_until(lambda: metric(quorum, name) >= 1, "the metric says so")
    quorum.put("meanwhile", "1")
    lines = [line for line in warnings(node, since) if "listener CONTROLLER" in line]
    assert len(lines) == 1, lines
    assert lines[0].startswith("listener CONTROLLER continues to use the previous certificate")
    assert why in lines[0]
    if "clock" in reported:
        assert "the clock of this host says" in lines[0]
    write_at_once(store, good)
    wait_until(lambda: problem(quorum) is None, "all is good again")
    wait_until(lambda: metric(quorum, name) == 0, "on all ports")
    assert quorum.local(1)["tls"]["certificate"]["sha256"] == shown


def connected(quorum: TlsQuorum, port: int, folder: Path) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", port), 10.0)
    context = client_context(folder, quorum.folder("admin") / "ca.crt")
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def is_ended(connection: socket.socket) -> bool:
    connection.settimeout(0.05)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.mark.requirement("K631-12")
@pytest.mark.parametrize("port", ["port", "admin_port"])
def test_revoked_client_is_disconnected_and_cannot_reconnect(
    quorum: RevokingQuorum, tmp_path: Path, port: str
) -> None:
    """Within two checks of the file and the second in which the connections are checked."""
    node = quorum.nodes[1]
    number, since = getattr(node, port), len(node.log_text)
    gone, stays = (certificate_of("reader", None, quorum.ca) for _ in range(2))
    write_folder(tmp_path / "gone", gone, quorum.ca.certificate)
    write_folder(tmp_path / "stays", stays, quorum.ca.certificate)
    counted = metric(quorum, "metadata_quorum_connections_closed_total")
    with (
        connected(quorum, number, tmp_path / "gone") as ends,
        connected(quorum, number, tmp_path / "stays") as goes_on,
    ):
        write_at_once(quorum.revoked, f"{gone.certificate.serial_number:x}\n".encode())
        wait_until(lambda: is_ended(ends), "the connection ends", 60)
        assert not is_ended(goes_on)
    with contextlib.suppress(OSError), connected(quorum, number, tmp_path / "gone") as again:
        wait_until(lambda: is_ended(again), "the revoked client is refused", 60)
    name = "metadata_quorum_connections_closed_total"
    wait_until(lambda: metric(quorum, name) >= counted + 2, "both are counted")
    wait_until(
        lambda: metric(quorum, "metadata_quorum_revoked_certificates") == 2, "one on each port"
    )
    assert quorum.local(1)["tls"]["revoked"] == 1
    serial = f"with the serial {gone.certificate.serial_number:x}, which is revoked"

    def lines() -> list[str]:
        return [line for line in warnings(node, since) if serial in line]

    wait_until(lambda: len(lines()) >= 2, "one for the open connection, one for the handshake")
    assert len(lines()) == 2
    # A list that is temporarily unreadable stays in force.
    write_at_once(quorum.revoked, b"no serial\n")
    reported = wait_until(lambda: problem(quorum), "the node says so")
    assert "has a line 1 that is not a serial in hexadecimal digits" in reported
    with contextlib.suppress(OSError), connected(quorum, number, tmp_path / "gone") as again:
        wait_until(lambda: is_ended(again), "it is refused again", 60)
    write_at_once(quorum.revoked, b"# nobody\n")
    wait_until(lambda: problem(quorum) is None, "all is good again")
    with connected(quorum, number, tmp_path / "gone") as again:
        assert not is_ended(again)


@pytest.mark.parametrize("port", ["port", "admin_port"])
def test_client_certificate_with_an_unsupported_name_is_rejected_and_the_node_continues(
    quorum: RevokingQuorum, tmp_path: Path, port: str
) -> None:
    """OpenSSL accepts it. The library that reads its names raises an error that is no ValueError."""
    node = quorum.nodes[1]
    since = len(node.log_text)
    x400_address = {"2.5.29.17": b"\x30\x02\xa3\x00"}
    now = datetime.now(UTC)
    odd = issue(
        "odd", issuer=quorum.ca, start=now - DAY, end=now + DAY, hosts=(), further=x400_address
    )
    write_folder(tmp_path / "odd", odd, quorum.ca.certificate)
    with (
        contextlib.suppress(OSError),
        connected(quorum, getattr(node, port), tmp_path / "odd") as connection,
    ):
        wait_until(lambda: is_ended(connection), "the node closes the connection")
    message = "shows a certificate that can't be read (UnsupportedGeneralNameType)"
    wait_until(lambda: any(message in line for line in warnings(node, since)), "the node says so")
    quorum.put("after", "1")
    assert node.is_running


def test_node_reports_that_its_own_certificate_is_revoked(quorum: RevokingQuorum) -> None:
    """Other members reject it, and would be the only ones to report why."""
    node, since = quorum.nodes[1], len(quorum.nodes[1].log_text)
    serial = quorum.local(1)["tls"]["certificate"]["serial"]
    write_at_once(quorum.revoked, f"{serial}\n".encode())
    wait_until(lambda: "is revoked" in (problem(quorum) or ""), "the node says so")
    wait_until(lambda: metric(quorum, "metadata_quorum_certificate_problem") == 2, "on both ports")
    (line,) = (each for each in warnings(node, since) if "listener CONTROLLER" in each)
    assert line.startswith("listener CONTROLLER presents a certificate that others refuse")
    quorum.issue_for("member", 1)
    wait_until(lambda: problem(quorum) is None, "another certificate mends it")
    write_at_once(quorum.revoked, b"# nobody\n")
