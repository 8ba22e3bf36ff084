"""Stock Kafka's tools with brokers of this software with TLS only: by certificate, and by SCRAM."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import stock_kafka
from support.client_properties import by_certificate, by_password
from support.local_quorum import wait_until
from support.tls_python_brokers import ADMIN, TlsPythonBrokers
from support.unauthorized_clients import LockedQuorum

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(400)]

TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
ACLS = "org.apache.kafka.tools.AclCommand"
FIRST = ("--partition", "0", "--offset", "earliest", "--timeout-ms", "20000")


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[TlsPythonBrokers]:
    """Two brokers; the administrator has made topic t."""
    with (
        LockedQuorum(tmp_path / "quorum", 1, **{"super.users": ADMIN}) as quorum,
        TlsPythonBrokers(quorum, tmp_path / "brokers", 2) as made,
    ):
        quorum.form()
        made.start()
        made.create_topic("t", [201, 202], min_insync_replicas="2")
        yield made


def run(main_class: str, config: Path, *arguments: str, given: str | None = None) -> str:
    """What a tool prints, whether it succeeds or not."""
    done = subprocess.run(
        stock_kafka.java(main_class, *arguments, "--command-config", str(config), heap_mb=256),
        input=given,
        capture_output=True,
        text=True,
        timeout=90,
    )
    return done.stdout + done.stderr


def test_console_tools_authenticate_by_certificate_and_by_password(
    brokers: TlsPythonBrokers, tmp_path: Path
) -> None:
    admin = tmp_path / "admin.properties"
    admin.write_text(by_certificate(brokers.quorum.folder("admin")))
    server = ("--bootstrap-server", brokers.bootstrap)
    run(PRODUCER, admin, *server, "--topic", "t", given="one\ntwo\n")
    read = run(CONSUMER, admin, *server, "--topic", "t", *FIRST, "--max-messages", "2")
    assert read.splitlines()[:2] == ["one", "two"]

    entity = ("--entity-type", "users", "--entity-name", "alice")
    made = "SCRAM-SHA-512=[password=alice-secret]"
    run(stock_kafka.CONFIGS, admin, *server, "--alter", *entity, "--add-config", made)
    alice = tmp_path / "alice.properties"
    ca = brokers.quorum.folder("admin") / "ca.crt"
    alice.write_text(by_password("alice", "alice-secret", ca))
    logins = ",".join(f"127.0.0.1:{port}" for port in brokers.login_ports.values())
    entrance = ("--bootstrap-server", logins)
    wait_until(lambda: "t" not in run(TOPICS, alice, *entrance, "--list").split(), "in", 60)
    refused = run(PRODUCER, alice, *entrance, "--topic", "t", given="three\n")
    assert "Not authorized to access topics: [t]" in refused
    granted = ("--add", "--force", "--allow-principal", "User:alice", "--topic", "t")
    run(ACLS, admin, *server, *granted, "--operation", "Read", "--operation", "Write")
    wait_until(lambda: "t" in run(TOPICS, alice, *entrance, "--list").split(), "the rights count")
    run(PRODUCER, alice, *entrance, "--topic", "t", given="four\n")
    read = run(CONSUMER, alice, *entrance, "--topic", "t", *FIRST, "--max-messages", "3")
    assert read.splitlines()[:3] == ["one", "two", "four"]
