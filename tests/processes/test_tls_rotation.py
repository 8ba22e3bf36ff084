"""Real processes with TLS: certificates and authorities change under load, nothing is restarted, and no write fails."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.hashes import SHA256

from quorum_node.exit_codes import ExitCode
from support.generated_certificates import Issued
from support.local_quorum import LocalNode, wait_until
from support.patience import PATIENT
from support.tls_quorum import (
    A_RUN,
    TlsQuorum,
    certificate_of,
    client_context,
    new_authority,
    write_folder,
)

pytestmark = pytest.mark.long


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[TlsQuorum]:
    with TlsQuorum(tmp_path / "quorum", 3, properties=PATIENT) as made:
        made.form()
        yield made
        made.close()
        for node in made.nodes.values():
            print(node.log_text[-4000:])


class Writer:
    """Writes one value after the other to the leader, and keeps what went wrong. Each write is tried once."""

    def __init__(self, quorum: TlsQuorum) -> None:
        self.written = 0
        self.failed: list[str] = []
        self.longest_seconds = 0.0
        self._quorum = quorum
        self._url = quorum.leader.admin_url
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> "Writer":
        self._thread.start()
        wait_until(lambda: self.written > 20, "the writer writes")
        return self

    def __exit__(self, *exc: object) -> None:
        self._ends.set()
        self._thread.join()

    def goes_on(self, writes: int = 50) -> None:
        """Waits until so many more are written."""
        until = self.written + writes
        wait_until(lambda: self.written >= until, "the writer goes on")

    def _write(self) -> None:
        while not self._ends.is_set():
            # The certificate in the folder as it is now, as a program would read it for each connection.
            with self._quorum.client_of("admin") as client:
                for _ in range(20):
                    began = time.monotonic()
                    body = {"value": str(self.written), "timeoutMs": 5000}
                    url = f"{self._url}/v1/configs/topic/t/key-{self.written % 50}"
                    try:
                        answer = client.put(url, json=body)
                        if not answer.is_success:
                            self.failed.append(answer.text)
                    except Exception as error:
                        self.failed.append(repr(error))
                    self.written += 1
                    self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)


def fingerprint(quorum: TlsQuorum, node_id: int) -> str:
    return str(quorum.local(node_id)["tls"]["certificate"]["sha256"])


def everywhere(quorum: TlsQuorum, holds: Callable[[dict], bool], what: str) -> None:
    for node_id in quorum.nodes:
        wait_until(lambda node_id=node_id: holds(quorum.local(node_id)["tls"]), what)


def sha256(made: Issued) -> str:
    return made.certificate.fingerprint(SHA256()).hex()


def held_connection(port: int, folder: Path) -> socket.socket:
    """A connection of an accepted client that sends nothing."""
    plain = socket.create_connection(("127.0.0.1", port), 10.0)
    return client_context(folder, folder / "ca.crt").wrap_socket(plain, server_hostname="127.0.0.1")


def gauge(node: LocalNode, quorum: TlsQuorum, name: str) -> float:
    """Of the listener by which members dial each other."""
    text = quorum.client.get(f"{node.admin_url}/metrics").text
    (line,) = (
        each
        for each in text.splitlines()
        if each.startswith(f'metadata_quorum_{name}{{listener="controller"}}')
    )
    return float(line.split()[-1])


def epoch(quorum: TlsQuorum) -> int:
    return int(quorum.describe()["leaderEpoch"])


def test_leaf_certificates_are_renewed_under_load_without_a_failed_write(quorum: TlsQuorum) -> None:
    before, processes = epoch(quorum), [node.process for node in quorum.nodes.values()]
    with Writer(quorum) as writer:
        for _ in range(5):
            for node_id in quorum.nodes:
                made = quorum.issue_for("member", node_id)
                wait_until(
                    lambda node_id=node_id, made=made: fingerprint(quorum, node_id) == sha256(made),
                    "the node shows its new certificate",
                )
            writer.goes_on()
    assert writer.failed == []
    assert epoch(quorum) == before, "there was an election"
    assert [node.process for node in quorum.nodes.values()] == processes
    # Far less than it takes to notice that a leader is silent.
    assert writer.longest_seconds < 5.0


def test_authority_is_replaced_under_load_and_the_old_one_is_no_longer_trusted(
    quorum: TlsQuorum, tmp_path: Path
) -> None:
    before, old = epoch(quorum), quorum.ca
    new = new_authority("ca-2")
    outside = tmp_path / "outside"
    write_folder(outside, certificate_of("reader", None, old), old.certificate, new.certificate)
    held = held_connection(quorum.leader.port, outside)
    with Writer(quorum) as writer:
        quorum.trust(old.certificate, new.certificate)
        everywhere(quorum, lambda tls: len(tls["trusted"]) == 2, "it trusts both")
        writer.goes_on()
        quorum.ca = new
        quorum.issue_for("admin", None)
        made = {node_id: quorum.issue_for("member", node_id) for node_id in quorum.nodes}
        for node_id, each in made.items():
            wait_until(
                lambda node_id=node_id, each=each: fingerprint(quorum, node_id) == sha256(each),
                "the node shows its new certificate",
            )
        writer.goes_on()
        quorum.client.close()
        quorum.client = quorum.make_client()
        quorum.trust(new.certificate)
        everywhere(quorum, lambda tls: len(tls["trusted"]) == 1, "it trusts the new one alone")
        writer.goes_on()
    assert writer.failed == []
    assert epoch(quorum) == before
    assert quorum.put("after", "1")
    with held:
        assert held.recv(1) == b"", "connections of the old authority are closed"
    with contextlib.suppress(OSError), held_connection(quorum.leader.port, outside) as refused:
        assert refused.recv(1) == b"", "the client reconnected"


def test_mismatched_key_and_certificate_change_nothing_and_are_reported(quorum: TlsQuorum) -> None:
    node = quorum.leader
    before = fingerprint(quorum, node.id)
    one, other = (certificate_of("member", node.id, quorum.ca) for _ in range(2))
    wrong = Issued(one.certificate, other.key)
    write_folder(quorum.folder(str(node.id)), wrong, *quorum.trusted)
    problem = wait_until(lambda: quorum.local(node.id)["tls"]["problem"], "the node reports it")
    assert "contains a key that does not match its first certificate" in problem
    assert fingerprint(quorum, node.id) == before
    quorum.put("still", "1")
    assert "continues to use the previous certificate" in node.log_text
    wait_until(lambda: gauge(node, quorum, "certificate_problem") == 1.0, "the metric says so")
    quorum.issue_for("member", node.id)
    wait_until(lambda: fingerprint(quorum, node.id) != before, "the corrected pair is used")
    assert quorum.local(node.id)["tls"]["problem"] is None
    wait_until(lambda: gauge(node, quorum, "certificate_problem") == 0.0, "the metric says so")
    ends = gauge(node, quorum, "certificate_not_after_seconds")
    left_seconds = ends - time.time()
    assert A_RUN.total_seconds() - 600 < left_seconds <= A_RUN.total_seconds()
    assert gauge(node, quorum, "authority_not_after_seconds") > ends


def test_voters_are_added_and_removed_with_certificates(quorum: TlsQuorum) -> None:
    removed = quorum.followers[0]
    uuid = quorum.local(removed.id)["replicaUuid"]
    quorum.add_node(4).start()
    quorum.add_voter(4)
    quorum.remove_voter(removed.id, uuid)
    assert quorum.voter_ids() == sorted({1, 2, 3, 4} - {removed.id})
    quorum.put("moved", "1")
    leader = quorum.leader
    assert leader.terminate() == 0
    quorum.put("without-it", "2")
    leader.start()
    quorum.wait_caught_up(leader.id)
    assert quorum.get("moved") == "1"


def test_node_with_the_certificate_of_another_member_does_not_start(quorum: TlsQuorum) -> None:
    node = quorum.followers[0]
    other = next(each for each in quorum.nodes if each != node.id)
    assert node.terminate() == 0
    stolen = certificate_of("member", other, quorum.ca)
    write_folder(quorum.folder(str(node.id)), stolen, *quorum.trusted)
    node.start()
    assert node.wait_exit() == ExitCode.BAD_CONFIGURATION
    wanted = f"member:{other} is not that of member {node.id}"
    assert wanted in node.termination_message
    quorum.issue_for("member", node.id)
    node.start()
    quorum.wait_caught_up(node.id)
