"""Starts that are refused: a clear message, the documented exit code, nothing overwritten."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quorum_node.exit_codes import ExitCode
from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.records.identity import uuid_text
from quorum_node.storage.failure_latch import FAILURE_MARK
from support.generated_certificates import Issued, issue, pem
from support.local_quorum import LocalNode
from support.tls_quorum import TlsQuorum, certificate_of


def content_of(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def refused(node: LocalNode, code: ExitCode, reason: str, *words: str) -> None:
    """Start the node and see it refuse."""
    node.start()
    assert node.wait_exit() == code, node.log_text
    message = json.loads(node.termination_message)
    assert message["reason"] == reason
    for word in words:
        assert word in message["message"]
    assert message["nodeId"] in (node.id, int(node.overrides.get("node.id", node.id)))


DAY = timedelta(days=1)


def keystore(quorum: TlsQuorum, **validity: timedelta) -> bytes:
    return certificate_of("member", 1, quorum.ca, **validity).keystore


def mismatched(quorum: TlsQuorum) -> bytes:
    one, two = (certificate_of("member", 1, quorum.ca) for _ in range(2))
    return Issued(one.certificate, two.key).keystore


def authority_at(quorum: TlsQuorum, start: timedelta, end: timedelta) -> bytes:
    """The authority of the quorum, with this validity."""
    now, key = datetime.now(UTC), quorum.ca.key
    validity = {"start": now + start, "end": now + end}
    made = issue("ca-1", key=key, authority=True, hosts=(), usages=None, **validity)
    return pem(made.certificate)


@pytest.mark.parametrize(
    ("file", "made", "words"),
    [
        ("keystore.pem", lambda q: keystore(q)[:-30], "ends inside of a block CERTIFICATE"),
        ("keystore.pem", lambda q: b"", "is empty"),
        ("keystore.pem", mismatched, "contains a key that does not match its first certificate"),
        ("keystore.pem", lambda q: keystore(q, start=-2 * DAY, end=-DAY), "which expired at"),
        ("keystore.pem", lambda q: keystore(q, start=DAY, end=2 * DAY), "valid from"),
        ("ca.crt", lambda q: pem(q.ca.certificate)[:-30], "ends inside of a block CERTIFICATE"),
        ("ca.crt", lambda q: b"", "is empty"),
        ("ca.crt", lambda q: authority_at(q, -2 * DAY, -DAY), "which expired at"),
        ("ca.crt", lambda q: authority_at(q, DAY, 2 * DAY), "valid from"),
    ],
    ids=[
        "half-written", "empty", "mismatched", "clock-ahead", "clock-behind",
        "half-written-trust", "empty-trust", "trust-clock-ahead", "trust-clock-behind",
    ],
)  # fmt: skip
def test_node_does_not_start_with_unusable_certificates(
    tmp_path: Path, file: str, made: Callable[[TlsQuorum], bytes], words: str
) -> None:
    """One sentence names the file; with the right one the node starts. The time is in it where a clock may be the reason."""
    with TlsQuorum(tmp_path / "quorum", 1) as quorum:
        (node,) = quorum.nodes.values()
        path = quorum.folder("1") / file
        good = path.read_bytes()
        path.write_bytes(made(quorum))
        clock = (
            ("the clock of this host says",) if words in ("which expired at", "valid from") else ()
        )
        refused(node, ExitCode.BAD_CONFIGURATION, "BadConfiguration", words, *clock)
        assert not (node.data_dir / "meta.properties").exists()
        path.write_bytes(good)
        quorum.form()


@pytest.mark.requirement("K595-05")
def test_directory_of_another_node_or_cluster_is_rejected(make_quorum) -> None:
    quorum = make_quorum(1, formed=True)
    quorum.put("k", "v")
    node = quorum.nodes[1]
    assert node.terminate() == 0
    before = content_of(node.data_dir)
    node.overrides = {"node.id": "7"}
    refused(node, ExitCode.IDENTITY_MISMATCH, "IdentityMismatch", "node.id=1", "node.id=7")
    node.overrides = {"cluster.id": "another"}
    refused(node, ExitCode.IDENTITY_MISMATCH, "IdentityMismatch", quorum.cluster_id, "another")
    assert content_of(node.data_dir) == before
    node.overrides = {}
    node.start()
    assert quorum.get("k") == "v"


@pytest.mark.requirement("K595-05", "K595-20")
def test_different_discovered_cluster_id_is_fatal(make_quorum) -> None:
    quorum = make_quorum(1, formed=True)
    stranger = quorum.add_node(2, cluster_id="another-cluster")
    stranger.start()
    assert stranger.wait_exit() == ExitCode.IDENTITY_MISMATCH, stranger.log_text
    assert json.loads(stranger.termination_message)["reason"] == "IdentityMismatch"


@pytest.mark.requirement("K595-05")
def test_node_without_a_cluster_id_discovers_and_stores_it(make_quorum) -> None:
    quorum = make_quorum(1, formed=True)
    newcomer = quorum.add_node(2, cluster_id="")
    newcomer.start()
    quorum.wait_caught_up(2)
    assert quorum.local(2)["clusterId"] == quorum.cluster_id
    text = (newcomer.data_dir / "meta.properties").read_text()
    assert f"cluster.id={quorum.cluster_id}" in text
    newcomer.terminate()
    newcomer.overrides = {"cluster.id": "another"}
    refused(newcomer, ExitCode.IDENTITY_MISMATCH, "IdentityMismatch", quorum.cluster_id)


def test_second_formation_by_a_wiped_founder_is_rejected(make_quorum) -> None:
    """The amnesia case: an empty directory that claims its old identity."""
    quorum = make_quorum(3, formed=True)
    quorum.put("k", "v")
    founder = quorum.nodes[1]
    founder.kill()
    shutil.rmtree(founder.data_dir)
    # The same pod: its record of the format is still there.
    refused(founder, ExitCode.STORAGE_FAILED, "StorageFailed", "its data is lost")
    # Another pod with the same configuration: the others know the cluster.
    for path in (founder.root / "failed", founder.root / "formatted"):
        path.unlink()
    refused(
        founder,
        ExitCode.IDENTITY_MISMATCH,
        "IdentityMismatch",
        "founded only once",
        quorum.cluster_id,
    )
    assert not (founder.data_dir / "meta.properties").exists()
    assert quorum.get("k") == "v"


@pytest.mark.requirement("K853-06")
def test_wiped_voter_returns_under_a_new_replica_key(make_quorum) -> None:
    quorum = make_quorum(3, formed=True)
    quorum.put("k", "v")
    node = quorum.nodes[3]
    old_uuid = quorum.local(3)["replicaUuid"]
    node.kill()
    shutil.rmtree(node.data_dir)
    (node.root / "formatted").unlink()
    node.start()
    quorum.wait_caught_up(3)
    local = quorum.local(3)
    assert local["replicaUuid"] != old_uuid
    assert not local["isVoter"]
    voters = {(v["id"], v["uuid"]): v for v in quorum.describe()["voters"]}
    assert (3, old_uuid) in voters
    assert (3, local["replicaUuid"]) not in voters
    wait = quorum.describe()
    assert not {(v["id"], v["uuid"]): v for v in wait["voters"]}[3, old_uuid]["lag"] < 0


def test_missing_token_file_is_rejected(make_quorum) -> None:
    quorum = make_quorum(1)
    node = quorum.nodes[1]
    (quorum.root / "token").unlink()
    refused(node, ExitCode.BAD_CONFIGURATION, "BadConfiguration", "admin.token.file=", "token")
    assert not node.data_dir.exists()
    (quorum.root / "token").write_text("\n")
    refused(node, ExitCode.BAD_CONFIGURATION, "BadConfiguration", "the file is empty")


def test_file_in_place_of_the_data_directory_is_no_failed_disk(make_quorum) -> None:
    quorum = make_quorum(1)
    node = quorum.nodes[1]
    node.data_dir.write_text("")
    refused(node, ExitCode.BAD_CONFIGURATION, "BadConfiguration", "is not a directory")
    node.data_dir.unlink()
    quorum.form()


@pytest.mark.requirement("K595-01")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("controller.quorum.fetch.timeout.ms", "soon"),
        ("controller.quorum.voters", "1@127.0.0.1:9093"),
        ("listeners", "CONTROLLER://127.0.0.1:0"),
    ],
)
def test_invalid_configuration_value_ends_the_start(make_quorum, key: str, value: str) -> None:
    quorum = make_quorum(1)
    node = quorum.nodes[1]
    node.overrides = {key: value}
    refused(node, ExitCode.BAD_CONFIGURATION, "BadConfiguration", key, value)
    assert not node.data_dir.exists()


def test_port_in_use_ends_the_start(make_quorum) -> None:
    quorum = make_quorum(2, initial_voters=1)
    quorum.nodes[1].start()
    quorum.wait_leader()
    second = quorum.nodes[2]
    second.overrides = {"listeners": f"CONTROLLER://127.0.0.1:{quorum.nodes[1].port}"}
    refused(second, ExitCode.BAD_CONFIGURATION, "BadConfiguration", "listeners=", "bound")


@pytest.mark.parametrize("key", ["admin.listener", "health.listener"])
def test_two_listeners_on_one_port_are_rejected(make_quorum, key: str) -> None:
    """Both can be bound; which is why it shows only when the second begins to listen."""
    quorum = make_quorum(1)
    node = quorum.nodes[1]
    node.overrides = {key: f"http://127.0.0.1:{node.port}"}
    named = f"{key}=http://127.0.0.1:{node.port}"
    refused(node, ExitCode.BAD_CONFIGURATION, "BadConfiguration", named, "choose another port")


def test_latched_failure_rejects_every_start(make_quorum) -> None:
    quorum = make_quorum(1, formed=True)
    node = quorum.nodes[1]
    node.kill()
    (node.root / "failed").write_text('{"message": "EIO on sync"}')
    for _ in range(2):
        refused(node, ExitCode.STORAGE_FAILED, "StorageFailed", "EIO on sync")


def test_damaged_log_is_a_storage_failure_and_is_not_modified(make_quorum) -> None:
    quorum = make_quorum(1, formed=True)
    quorum.put("k", "v")
    node = quorum.nodes[1]
    node.kill()
    path = next(node.data_dir.glob("__cluster_metadata-0/*.log"))
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 0x10
    path.write_bytes(damaged)
    refused(node, ExitCode.STORAGE_FAILED, "StorageFailed", "is damaged at byte")
    assert path.read_bytes() == bytes(damaged)
    assert (node.root / "failed").exists()


@pytest.mark.requirement("K595-06")
def test_log_without_its_synced_records_is_reported_by_its_replica(make_quorum) -> None:
    """All of it can be read, and it ends too early: an older copy, or a disk that lost what it confirmed."""
    quorum = make_quorum(1, formed=True)
    quorum.put("k", "v")
    node = quorum.nodes[1]
    path = next(node.data_dir.glob("__cluster_metadata-0/*.log"))
    older = path.read_bytes()
    quorum.put("k", "acknowledged")
    node.kill()
    path.write_bytes(older)
    words = ("but everything below offset", "was synced", "empty disk")
    refused(node, ExitCode.STORAGE_FAILED, "StorageFailed", *words)
    assert path.read_bytes() == older
    # The marks are no part of the proof.
    (node.root / "failed").unlink()
    (node.data_dir / FAILURE_MARK).unlink()
    refused(node, ExitCode.STORAGE_FAILED, "StorageFailed", *words)


def test_founder_with_another_configured_uuid_keeps_its_stored_uuid(make_quorum) -> None:
    quorum = make_quorum(1, formed=True)
    node = quorum.nodes[1]
    uuid = quorum.local(1)["replicaUuid"]
    assert uuid == quorum.founder_uuid
    node.kill()
    node.overrides = {"formation.founder.uuid": uuid_text(fresh_uuid())}
    node.start()
    quorum.wait_leader()
    assert quorum.local(1)["replicaUuid"] == uuid
