"""Backups in an object store: whole when they are visible, checked as the store returns them, and only old ones go."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from quorum_node.archiver import main as command
from quorum_node.archiver import taking_to_store
from quorum_node.archiver.taking_to_store import take_to_store
from quorum_node.backups import object_store, stored_backups
from quorum_node.backups.manifest import BackupError, Manifest
from quorum_node.backups.object_address import ObjectAddress, parse_place
from quorum_node.backups.object_store import connect
from quorum_node.backups.stored_backups import MARK, STALE_S
from quorum_node.backups.stored_source import find_stored_source, folder_of
from quorum_node.client.committed_log import CommittedLog
from quorum_node.configuration.node_config import check_config
from quorum_node.configuration.properties import ConfigError
from quorum_node.records import metadata as md
from quorum_node.server.starting.restoring import restore
from quorum_node.storage.failure_latch import FailureLatch
from support.generated_certificates import authority, issue, key_pem, pem
from support.object_store import ObjectStore
from support.object_store_proxy import Answer, ObjectStoreProxy, failure
from support.ports import free_ports
from support.quorum_directory_reader import DirectoryReader
from support.written_log import LogWriter, write_history

BUCKET = "backups"
PAGE_KEYS = 3
"""Listings of all tests have several pages."""
FIRST_S = 1_800_000_000
PART_BYTES = 5 << 20
"""S3's smallest part."""


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with ObjectStore(page_keys=PAGE_KEYS) as made:
        made.create_bucket(BUCKET)
        yield made


@pytest.fixture
def store(server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    for key in server.keys(BUCKET):
        server.s3.delete_object(Bucket=BUCKET, Key=key)
    return server


@pytest.fixture
def proxy(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStoreProxy]:
    with ObjectStoreProxy(store) as made:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", made.endpoint)
        yield made


@pytest.fixture
def leader(tmp_path: Path) -> DirectoryReader:
    writer = LogWriter(tmp_path / "replica")
    write_history(writer)
    writer.snapshot()
    writer.append(md.TopicRecord(name="late", topic_id=UUID(int=9)))
    writer.close()
    return DirectoryReader(tmp_path / "replica")


Take = Callable[..., Manifest]
ADDRESS = cast(ObjectAddress, parse_place(f"s3://{BUCKET}/folder/demo"))


@pytest.fixture
def take(
    tmp_path: Path, leader: DirectoryReader, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Take]:
    """Takes one, each a second later than the one before."""
    clock = iter(range(FIRST_S, FIRST_S + 1_000))
    # The module's own name, not the function of the whole process: other threads read the time as well.
    only_here = SimpleNamespace(time=lambda: float(next(clock)))
    monkeypatch.setattr(taking_to_store, "time", only_here)
    (tmp_path / "scratch").mkdir()
    client: list[object_store.ObjectStore] = []

    def run(keep: int = 7) -> Manifest:
        if not client:
            client.append(connect(ADDRESS))  # takes a second
        backups, log = folder_of(client[0], ADDRESS), cast(CommittedLog, leader)
        return take_to_store(log, backups, tmp_path / "scratch", keep, "1.0")

    yield run
    for each in client:
        each.close()


def listed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Names that `quorum-backup list` prints."""
    capsys.readouterr()
    assert command.main(["list", str(ADDRESS)]) == 0
    lines = capsys.readouterr().out.splitlines()
    return [each.split()[0] for each in lines if each.startswith("backup-")]


def test_stored_backup_passes_verification_and_is_found_by_a_restore(
    store: ObjectStore, take: Take, leader: DirectoryReader, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = take()
    assert listed(capsys) == [manifest.name]
    assert command.main(["verify", f"{ADDRESS}/{manifest.name}"]) == 0
    assert "complete, replayed without errors" in capsys.readouterr().out
    keys = store.keys(BUCKET)
    names = {f"folder/demo/{manifest.name}/{each.name}" for each in manifest.files}
    assert set(keys) == {*names, f"folder/demo/{manifest.name}/backup.json"}
    with closing(connect(ADDRESS)) as client:
        for place in (ADDRESS, ADDRESS / manifest.name, parse_place(f"s3://{BUCKET}/folder")):
            source = find_stored_source(client, cast(ObjectAddress, place), "cluster")
            assert source.manifest == manifest
        with pytest.raises(BackupError, match="none of cluster other"):
            find_stored_source(client, ADDRESS, "other")
        with pytest.raises(BackupError, match="contains no backup"):
            find_stored_source(client, ADDRESS / "nowhere", "cluster")


def test_large_files_are_uploaded_in_parts(
    store: ObjectStore,
    take: Take,
    leader: DirectoryReader,
    tmp_path: Path,
    proxy: ObjectStoreProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(object_store, "PART_BYTES", PART_BYTES)
    _lengthen(tmp_path, leader)
    manifest = take()
    largest = max(manifest.files, key=lambda each: each.size_bytes)
    assert largest.size_bytes > 2 * PART_BYTES
    parts = [each for each in proxy.requests if "partNumber=" in each]
    assert len(parts) == -(-largest.size_bytes // PART_BYTES)
    assert command.main(["verify", f"{ADDRESS}/{manifest.name}"]) == 0
    proxy.before = lambda number, method, path: (
        failure(503, "SlowDown") if "partNumber=2" in path else None
    )
    with pytest.raises(BackupError, match=r"write part 2 of .*503 SlowDown"):
        take()
    assert store.unfinished_uploads(BUCKET) == []
    assert {each.split("/")[2] for each in store.keys(BUCKET)} == {manifest.name}


def _lengthen(tmp_path: Path, leader: DirectoryReader) -> None:
    writer = LogWriter(tmp_path / "longer", segment_bytes=64 << 20)
    value = "v" * (1 << 20)
    for number in range(12):
        writer.append(
            md.ConfigRecord(resource_type=2, resource_name=f"t{number}", name="k", value=value)
        )
    writer.close()
    leader.directory = tmp_path / "longer" / "__cluster_metadata-0"


@pytest.mark.slow
@pytest.mark.parametrize("status", [(500, "InternalError"), (503, "SlowDown")])
def test_failed_request_aborts_the_run_without_a_backup(
    status: tuple[int, str],
    store: ObjectStore,
    proxy: ObjectStoreProxy,
    take: Take,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each request in turn. None is repeated until it succeeds; after the manifest is written there is a backup."""
    kept = take()
    count = len(proxy.requests)
    for doomed in range(1, count + 1):
        proxy.requests.clear()
        proxy.before = lambda number, method, path, doomed=doomed: (
            failure(*status) if number == doomed else None
        )
        begun = set(listed_by(store))
        proxy.requests.clear()
        with pytest.raises(BackupError, match=f"the store answered {status[0]} {status[1]}"):
            take()
        written = any(
            "PUT" in each and "backup.json" in each for each in proxy.requests[: doomed - 1]
        )
        proxy.before = lambda number, method, path: None
        after = set(listed_by(store))
        assert (after > begun) == written, (doomed, proxy.requests)
        assert not list((tmp_path / "scratch").iterdir())
    assert count > 10
    names = listed(capsys)
    assert names[0] == kept.name
    for name in names:
        assert command.main(["verify", f"{ADDRESS}/{name}"]) == 0


def test_backup_is_reported_as_complete_if_only_older_ones_can_not_be_deleted(
    proxy: ObjectStoreProxy, take: Take
) -> None:
    old = take().name
    proxy.before = lambda number, method, path: (
        failure(403, "AccessDenied") if method == "DELETE" and old in path else None
    )
    told = rf"demo/backup-.* is complete, but older backups .*{old}.*AccessDenied"
    with pytest.raises(BackupError, match=told):
        take(keep=1)


def listed_by(store: ObjectStore) -> list[str]:
    keys = store.keys(BUCKET)
    return [each.split("/")[2] for each in keys if each.endswith("/backup.json")]


@pytest.mark.parametrize("file", [".log", "leader-epoch-checkpoint"])
def test_backup_is_not_published_if_the_store_returns_other_bytes(
    file: str, store: ObjectStore, proxy: ObjectStoreProxy, take: Take
) -> None:
    """Not only where a replay notices it."""

    def flip(number: int, answer: Answer) -> Answer:
        path = proxy.requests[number - 1]
        if not path.startswith("GET") or file not in path:
            return answer
        body = bytes([answer.body[0] ^ 1]) + answer.body[1:]
        return Answer(answer.status, body, answer.headers)

    proxy.after = flip
    with pytest.raises(BackupError, match=f"{file} is damaged"):
        take()
    assert store.keys(BUCKET) == []


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "manifest", "none"])
def test_damage_is_found_and_named(
    damage: str, store: ObjectStore, take: Take, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = take()
    folder = f"folder/demo/{manifest.name}"
    (log,) = (each.name for each in manifest.files if each.name.endswith(".log"))
    key = f"{folder}/{log}"
    data = store.read(BUCKET, key)
    match damage:
        case "flip":
            store.write(BUCKET, key, data[:70] + bytes([data[70] ^ 4]) + data[71:])
        case "cut":
            store.write(BUCKET, key, data[:-1])
        case "gone":
            store.delete(BUCKET, [key])
        case "manifest":
            store.write(BUCKET, key := f"{folder}/backup.json", b"{}")
        case "none":
            store.delete(BUCKET, [key := f"{folder}/backup.json"])
    assert command.main(["verify", f"{ADDRESS}/{manifest.name}"]) == 1
    output = capsys.readouterr().err
    assert len(output.splitlines()) == 1
    wanted = {"gone": "NoSuchKey", "none": "there is no complete backup"}.get(damage, "is damaged")
    assert wanted in output
    assert (key if damage != "none" else manifest.name) in output


def test_only_the_oldest_backups_of_this_cluster_are_deleted(
    store: ObjectStore, take: Take
) -> None:
    foreign, broken = take().name, take().name
    path = f"folder/demo/{foreign}/backup.json"
    document = json.loads(store.read(BUCKET, path))
    store.write(BUCKET, path, json.dumps(document | {"clusterId": "another"}).encode())
    store.write(BUCKET, f"folder/demo/{broken}/backup.json", b"{")
    store.write(BUCKET, "folder/demo/notes/text", b"mine")
    store.write(BUCKET, "folder/demo-2/text", b"mine")
    made = [take(keep=2).name for _ in range(4)]
    found = {each.split("/")[2] for each in store.keys(BUCKET, "folder/demo/")}
    assert found == {foreign, broken, "notes", *made[-2:]}
    assert store.keys(BUCKET, "folder/demo-2/")


def test_backups_of_a_clock_that_was_ahead_do_not_displace_new_ones(
    store: ObjectStore,
    leader: DirectoryReader,
    tmp_path: Path,
    take: Take,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    growing = LogWriter(tmp_path / "growing")
    leader.directory = growing.directory

    def one_at(time_s: int) -> Manifest:
        monkeypatch.setattr(taking_to_store, "time", SimpleNamespace(time=lambda: float(time_s)))
        growing.append(md.TopicRecord(name=f"at-{time_s}", topic_id=UUID(int=time_s)))
        growing.record_committed(growing.end_offset)
        return take(keep=2)

    for number in range(2):
        one_at(FIRST_S + 100_000_000 + number)
    first, second = (one_at(FIRST_S + number) for number in range(2))
    assert {each.split("/")[2] for each in store.keys(BUCKET)} == {first.name, second.name}
    one_at(FIRST_S + 100_000_100)
    last = one_at(FIRST_S + 2)
    with closing(connect(ADDRESS)) as client:
        assert find_stored_source(client, ADDRESS, "cluster").manifest == last


def test_incomplete_backups_of_this_cluster_are_removed_after_a_day(
    store: ObjectStore, take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_backups, "_MOST_CLEANED", 2)

    def leave(day: int, cluster_id: str, age_s: int) -> str:
        name = f"backup-202701{day:02d}T000000Z-0000000007"
        mark = json.dumps({"clusterId": cluster_id, "since": FIRST_S - age_s})
        store.write(BUCKET, f"folder/demo/{name}/{MARK}", mark.encode())
        key = f"folder/demo/{name}/__cluster_metadata-0/{7:020d}.log"
        store.write(BUCKET, key, b"part")
        store.s3.create_multipart_upload(Bucket=BUCKET, Key=key)
        return name

    old = [leave(day, "cluster", STALE_S + 10) for day in (1, 2, 3)]
    young, foreign = leave(4, "cluster", STALE_S - 100), leave(5, "another", STALE_S + 10)
    unnamed = "backup-20270106T000000Z-0000000007"
    store.write(BUCKET, f"folder/demo/{unnamed}/__cluster_metadata-0/x.log", b"whose?")
    take()
    left = {each.split("/")[2] for each in store.keys(BUCKET)}
    assert left > {old[2], young, foreign, unnamed}
    assert left.isdisjoint(old[:2]), "no more than the limit in one run"
    assert len(store.unfinished_uploads(BUCKET)) == 3
    take()
    left = {each.split("/")[2] for each in store.keys(BUCKET)}
    assert old[2] not in left
    assert left > {young, foreign, unnamed}


def test_backup_name_has_only_one_writer(
    store: ObjectStore, take: Take, leader: DirectoryReader
) -> None:
    taken = f"backup-20270115T080000Z-{leader.committed().end_offset:010d}"
    mark = json.dumps({"clusterId": "cluster", "since": FIRST_S}).encode()
    store.write(BUCKET, f"folder/demo/{taken}/{MARK}", mark)
    with pytest.raises(BackupError, match="another backup is being written"):
        take()
    assert store.keys(BUCKET) == [f"folder/demo/{taken}/{MARK}"], (
        "the other writer's object was deleted"
    )


def test_listing_is_paged(store: ObjectStore, capsys: pytest.CaptureFixture[str]) -> None:
    name = "backup-20270101T000000Z-{:010d}".format
    for number in range(2 * PAGE_KEYS + 1):
        store.write(BUCKET, f"folder/demo/{name(number)}/x", b"")
    last = name(2 * PAGE_KEYS)
    store.write(BUCKET, f"folder/demo/{last}/backup.json", b"{}")
    assert listed(capsys) == [f"{last}:"]


def test_errors_are_one_line_without_credentials(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (closed,) = free_ports(1)

    def told(*arguments: str, code: int = 1, **environment: str) -> str:
        with monkeypatch.context() as changed:
            for name, value in environment.items():
                changed.setenv(name, value)
            assert command.main(["list", *arguments]) == code
        text = capsys.readouterr().err
        assert len(text.splitlines()) == 1
        for secret in (store.secret_key, "a-wrong-secret"):
            assert secret not in text
        return text

    folder = str(ADDRESS)
    assert "SignatureDoesNotMatch" in told(folder, AWS_SECRET_ACCESS_KEY="a-wrong-secret")
    assert "correct the credentials" in told(folder, AWS_ACCESS_KEY_ID="AKIAWRONG")
    assert "NoSuchBucket" in told("s3://no-such-bucket/x")
    assert "does not answer" in told(folder, "--endpoint", f"http://127.0.0.1:{closed}")
    assert "is not a URL" in told(folder, "--endpoint", "s3.example.com", code=2)
    for port in ("65536", "0", "x"):
        assert "a port up to 65535" in told(
            folder, "--endpoint", f"http://127.0.0.1:{port}", code=2
        )
    assert "is not a URL" in told(folder, "--endpoint", "http://:9000", code=2)
    assert "without credentials" in told(folder, "--endpoint", "http://u:a-wrong-secret@h", code=2)
    assert "is not an address" in told("s3:///x", code=2)
    assert "can't list" in told("s3://UPPER_CASE_is_no_bucket/x")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    assert "there are no credentials" in told(folder)


def test_store_timeout_is_an_error(
    store: ObjectStore, proxy: ObjectStoreProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    never = threading.Event()
    proxy.before = lambda number, method, path: Answer(500) if never.wait(30) else None
    with (
        closing(connect(ADDRESS, read_s=0.2)) as client,
        pytest.raises(BackupError, match=r"does not answer .*timeout"),
    ):
        client.folders("")
    never.set()
    assert len(proxy.requests) == 1, "not repeated"


@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize("body", [b"<html>hello<br></html>", b"<html>hello</html>"])
def test_endpoint_that_is_no_object_store_is_an_error(
    status: int, body: bytes, store: ObjectStore, proxy: ObjectStoreProxy
) -> None:
    proxy.before = lambda number, method, path: Answer(status, body)
    with (
        closing(connect(ADDRESS)) as client,
        pytest.raises(BackupError, match="can't list") as reported,
    ):
        client.folders("")
    assert "\n" not in str(reported.value)
    assert len(proxy.requests) == 1


def test_restore_accepts_only_the_bytes_of_the_manifest(
    store: ObjectStore, take: Take, tmp_path: Path
) -> None:
    """What the founder copies from the store is compared with the manifest while it is copied."""
    manifest = take()
    log = next(each for each in manifest.files if each.name.endswith(".log"))
    key = f"folder/demo/{manifest.name}/{log.name}"
    data = store.read(BUCKET, key)
    config = check_config(
        {
            "node.id": "4",
            "cluster.id": "cluster",
            "listeners": "CONTROLLER://127.0.0.1:9093",
            "admin.listener": "http://127.0.0.1:8080",
            "metadata.log.dir": str(tmp_path / "data"),
            "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        }
    )
    store.write(BUCKET, key, data[:70] + bytes([data[70] ^ 4]) + data[71:])
    with pytest.raises(ConfigError, match=r"--restore-from s3://.*\.log is damaged"):
        restore(config, ADDRESS, None, FailureLatch(None))
    store.delete(BUCKET, [key])
    with pytest.raises(ConfigError, match="404 NoSuchKey"):
        restore(config, ADDRESS, None, FailureLatch(None))
    assert not list((tmp_path / "data").glob("*"))
    store.write(BUCKET, key, data)
    restore(config, ADDRESS, None, FailureLatch(None))
    copied = tmp_path / "data" / log.name
    assert copied.read_bytes().startswith(data), "the founder's records follow"


def test_store_certificate_is_verified_with_the_configured_ca_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    issuer = authority(start=now - timedelta(days=1), end=now + timedelta(days=1))
    issued = issue(
        issuer=issuer,
        start=now - timedelta(days=1),
        end=now + timedelta(days=1),
        hosts=("127.0.0.1",),
    )
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    files[0].write_bytes(pem(issued.certificate, issuer.certificate))
    files[1].write_bytes(key_pem(issued.key))
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes(pem(issuer.certificate))
    with ObjectStore(certificate=files, authority=bundle) as secured:
        secured.create_bucket(BUCKET)
        for name, value in secured.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("AWS_CA_BUNDLE")
        with closing(connect(ADDRESS)) as client, pytest.raises(BackupError, match="AWS_CA_BUNDLE"):
            client.folders("")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))
        with closing(connect(ADDRESS)) as client:
            assert client.folders("") == []
