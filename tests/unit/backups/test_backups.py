"""`quorum-backup`: what it writes is whole when it has its name, is checked as it is on the disk, and only old ones go."""

import fcntl
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from quorum_node.archiver import main as command
from quorum_node.archiver import taking
from quorum_node.archiver.main import main
from quorum_node.archiver.taking import NotPruned, take
from quorum_node.backups import folder
from quorum_node.backups.contents import check_files, read_contents
from quorum_node.backups.files import DirectoryFiles
from quorum_node.backups.folder import backups_in
from quorum_node.backups.manifest import BackupError, Manifest, read_manifest
from quorum_node.backups.source import find_source
from quorum_node.client.committed_log import CommittedLog
from quorum_node.records import metadata as md
from quorum_pipeline.state.moment import Moment
from support.metadata_records import level
from support.quorum_directory_reader import DirectoryReader
from support.replayed_directory import replay_directory
from support.written_log import LogWriter, write_history


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    """A log of a hundred offsets or so, with a snapshot in its middle."""
    made = LogWriter(tmp_path / "replica")
    write_history(made)
    made.snapshot()
    made.append(md.TopicRecord(name="late", topic_id=UUID(int=9)))
    made.close()
    return made


@pytest.fixture
def leader(tmp_path: Path, writer: LogWriter) -> DirectoryReader:
    return DirectoryReader(tmp_path / "replica")


Take = Callable[..., Manifest]


@pytest.fixture
def backup(tmp_path: Path, leader: DirectoryReader, monkeypatch: pytest.MonkeyPatch) -> Take:
    """Takes one, each a second later than the one before."""
    clock = iter(range(1_800_000_000, 1_900_000_000))
    # The module's own name, not the function of the whole process: other threads read the time as well.
    only_here = SimpleNamespace(time=lambda: float(next(clock)))
    monkeypatch.setattr(taking, "time", only_here)

    def run(keep: int = 7) -> Manifest:
        return take(cast(CommittedLog, leader), tmp_path / "target", keep, "1.0")

    return run


def names(tmp_path: Path) -> list[str]:
    found = {each.name for each in (tmp_path / "target").iterdir()}
    return sorted(found - {".lock"})


def test_backup_has_the_same_state_as_the_log(
    tmp_path: Path, writer: LogWriter, backup: Take
) -> None:
    manifest = backup()
    assert (manifest.cluster_id, manifest.end_offset) == ("cluster", writer.end_offset)
    assert (manifest.epoch, manifest.metadata_version) == (writer.epoch, 27)
    path = tmp_path / "target" / manifest.name
    assert read_manifest(path) == manifest
    check_files(DirectoryFiles(path), manifest)
    kinds = [Path(each.name).suffix for each in manifest.files]
    assert sorted(kinds) == ["", ".checkpoint", ".log"], "not a snapshot with the log after it"
    assert read_contents(DirectoryFiles(path)).end_offset == writer.end_offset
    # What reads a replica's directory reads a backup.
    wanted = replay_directory(tmp_path / "replica", Moment())
    assert replay_directory(path, Moment()).image == wanted.image


def test_snapshot_deleted_meanwhile_is_requested_again(
    leader: DirectoryReader, backup: Take
) -> None:
    leader.gone = 2
    assert backup().end_offset == leader.committed().end_offset
    leader.gone = 100
    with pytest.raises(BackupError, match="gone"):
        backup()


def test_interrupted_backup_has_no_name_and_leaves_others_intact(
    tmp_path: Path, leader: DirectoryReader, backup: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = backup(keep=1)
    monkeypatch.setattr(DirectoryReader, "read", lambda *_: [])
    with pytest.raises(
        BackupError, match=r"returned no records at offset \d+, though \d+ was committed"
    ):
        backup(keep=1)
    assert names(tmp_path) == [kept.name], "the unfinished copy takes space from other backups"
    monkeypatch.undo()
    (tmp_path / "target" / ".writing-of-a-process-that-was-killed").mkdir()
    again = taking.take(cast(CommittedLog, leader), tmp_path / "target", 7, "")
    assert names(tmp_path) == sorted([kept.name, again.name]), "leftover files were not removed"


def test_backup_that_the_disk_lost_is_never_published(
    tmp_path: Path, backup: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = taking.CompleteLog.copy

    def cut(self: taking.CompleteLog) -> int:
        end_offset = honest(self)
        (log,) = self._partition.glob("*.log")
        data = log.read_bytes()
        log.write_bytes(data[:-30] + bytes([data[-30] ^ 1]) + data[-29:])
        return end_offset

    monkeypatch.setattr(taking.CompleteLog, "copy", cut)
    with pytest.raises(BackupError, match="is damaged"):
        backup()
    assert not [each for each in names(tmp_path) if each.startswith("backup-")]


def test_only_the_oldest_backups_of_this_cluster_are_deleted(tmp_path: Path, backup: Take) -> None:
    foreign = backup()
    path = tmp_path / "target" / foreign.name
    document = json.loads((path / "backup.json").read_bytes())
    (path / "backup.json").write_text(json.dumps(document | {"clusterId": "another"}))
    broken = backup()
    (tmp_path / "target" / broken.name / "backup.json").write_text("{")
    (tmp_path / "target" / "notes").mkdir()
    made = [backup(keep=2).name for _ in range(4)]
    assert names(tmp_path) == sorted([foreign.name, broken.name, "notes", *made[-2:]])


def test_backups_of_a_clock_that_was_ahead_do_not_displace_new_ones(
    tmp_path: Path, leader: DirectoryReader, backup: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = LogWriter(tmp_path / "growing")
    leader.directory, target = growing.directory, tmp_path / "target"

    def one_at(time_s: int) -> Manifest:
        monkeypatch.setattr(taking, "time", SimpleNamespace(time=lambda: float(time_s)))
        growing.append(md.TopicRecord(name=f"at-{time_s}", topic_id=UUID(int=time_s)))
        growing.record_committed(growing.end_offset)
        return backup(keep=2)

    ahead = [one_at(1_900_000_000 + number).name for number in range(2)]
    first, second = (one_at(1_800_000_000 + number) for number in range(2))
    assert ahead[0] > second.name, "the names do not show the order"
    assert names(tmp_path) == [first.name, second.name]
    one_at(1_900_000_100)
    last = one_at(1_800_000_002)
    assert find_source(target, "cluster").manifest == last, "not the one with the latest records"


def test_backup_that_is_damaged_after_its_publication_loses_its_name(
    tmp_path: Path, backup: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = backup()
    publish = folder.publish

    def lost(written: Path, manifest: Manifest) -> Path:
        published = publish(written, manifest)
        next(published.glob("*/*.log")).unlink()
        return published

    monkeypatch.setattr(folder, "publish", lost)
    with pytest.raises(BackupError, match="can't be read"):
        backup()
    assert backups_in(tmp_path / "target") == [tmp_path / "target" / kept.name]


def test_others_can_not_read_a_backup(tmp_path: Path, backup: Take) -> None:
    """It contains the credentials of clients."""
    before = os.umask(0o022)
    try:
        made = tmp_path / "target" / backup().name
        assert os.umask(0o022) == 0o022, "the umask of the process was changed for good"
    finally:
        os.umask(before)
    found = [made, *made.rglob("*")]
    assert len(found) >= 5
    for each in found:
        mode = stat.S_IMODE(each.stat().st_mode)
        assert mode == (0o750 if each.is_dir() else 0o640), each


@pytest.mark.parametrize("locked", [".", ".lock"])
def test_only_one_process_may_write_into_a_folder(
    tmp_path: Path, backup: Take, locked: str
) -> None:
    backup()
    held = os.open(tmp_path / "target" / locked, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(BackupError, match="another backup is being written"):
        backup()
    os.close(held)
    backup()


def test_backup_is_reported_as_complete_if_only_older_ones_can_not_be_deleted(
    tmp_path: Path, backup: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup()

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(BackupError, match=r"backup-.* is complete, but older .*Permission denied"):
        backup(keep=1)
    (path,) = backups_in(tmp_path / "target")
    check_files(DirectoryFiles(path), read_manifest(path))


def test_backup_is_reported_as_complete_if_the_older_ones_can_not_be_listed(
    tmp_path: Path, backup: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> None:
        raise BackupError("the folder can't be read")

    monkeypatch.setattr("quorum_node.archiver.taking.folder.prune", refuse)
    with pytest.raises(NotPruned, match=r"backup-.* is complete, but older .*can't be read"):
        backup(keep=1)
    assert len(backups_in(tmp_path / "target")) == 1


@pytest.mark.parametrize("target", ["target", "s3://bucket/folder"])
def test_sigterm_deletes_the_unfinished_copy(target: str, tmp_path: Path) -> None:
    scratch = tmp_path / "target"
    scratch.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        arguments = ["take", "--bootstrap", f"127.0.0.1:{port}", "--target", target]
        arguments += ["--scratch", str(scratch), "--endpoint", "http://127.0.0.1:1"]
        with subprocess.Popen(
            [sys.executable, "-m", "quorum_node.archiver", *arguments],
            cwd=tmp_path,
            env={**os.environ, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"},
        ) as program:
            connection, _ = silent.accept()  # The copy begins with a request to a server.
            with connection:
                assert connection.recv(1)
                assert names(tmp_path), "the copy has no directory yet"
                program.terminate()
                assert program.wait() == 130
    assert names(tmp_path) == []


def test_wrong_usage_has_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SASL_SSL\n")
    take = ["take", "--bootstrap", "127.0.0.1:1", "--timeout", "0", "--target"]
    for arguments, fault in (
        ([*take, "ftp://x"], "is not an address"),
        (["list", "s3://"], "is not an address"),
        ([*take, "x", "--bootstrap", "h"], "--bootstrap: 'h' is not host:port"),
        ([*take, "x", "--command-config", str(config)], "write PLAINTEXT or SSL"),
        ([*take, "x", "--tls", "t", "--command-config", str(config)], "give one of them"),
    ):
        assert main(arguments) == 2
        assert fault in capsys.readouterr().err


def test_server_that_closes_the_connection_may_require_tls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a listener with TLS does when it is asked in clear text."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close_one() -> None:
            connection, _ = server.accept()
            connection.recv(4)
            connection.close()

        closing = threading.Thread(target=close_one)
        closing.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        take = ["take", "--bootstrap", address, "--timeout", "0", "--target", str(tmp_path / "b")]
        assert main(take) == 1
        closing.join()
    assert "if its listener uses TLS, specify --tls or --command-config" in capsys.readouterr().err


def test_backup_of_the_same_second_is_refused_and_leaves_the_other_one(
    tmp_path: Path, backup: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = backup()
    again = SimpleNamespace(time=lambda: float(first.taken_at))
    monkeypatch.setattr(taking, "time", again)
    with pytest.raises(BackupError, match=f"{first.name} exists already, from the same second"):
        backup()
    assert names(tmp_path) == [first.name]
    check_files(DirectoryFiles(tmp_path / "target" / first.name), first)


def test_folder_is_not_taken_for_a_backup(
    tmp_path: Path, backup: Take, capsys: pytest.CaptureFixture[str]
) -> None:
    backup()
    assert main(["verify", str(tmp_path / "target")]) == 1
    told = f"{tmp_path / 'target'} is not a complete backup: it has no backup.json. Name a backup"
    assert told in capsys.readouterr().err


def test_newer_metadata_version_is_rejected(
    tmp_path: Path, leader: DirectoryReader, backup: Take
) -> None:
    later = LogWriter(tmp_path / "later")
    write_history(later)
    later.append(level(md.METADATA_VERSION, md.LATEST_LEVEL + 1))
    later.close()
    leader.directory = tmp_path / "later" / "__cluster_metadata-0"
    with pytest.raises(BackupError, match="write backups with the image version of the members"):
        backup()


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "manifest", "format"])
def test_damage_is_found_and_named(
    damage: str, tmp_path: Path, backup: Take, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "target" / backup().name
    assert main(["verify", str(path)]) == 0
    assert "complete, replayed without errors" in capsys.readouterr().out
    (log,) = (path / "__cluster_metadata-0").glob("*.log")
    data = log.read_bytes()
    match damage:
        case "flip":
            log.write_bytes(data[:70] + bytes([data[70] ^ 4]) + data[71:])
        case "cut":
            log.write_bytes(data[:-1])
        case "gone":
            log.unlink()
        case "manifest":
            (path / "backup.json").write_text("{}")
        case "format":
            document = json.loads((path / "backup.json").read_bytes()) | {"format": 2}
            (path / "backup.json").write_text(json.dumps(document))
    assert main(["verify", str(path)]) == 1
    output = capsys.readouterr().err
    place = path / "backup.json" if damage in ("manifest", "format") else log
    assert str(place) in output
    wanted = {"gone": "can't be read", "format": "reads format 1"}.get(damage, "damaged")
    assert wanted in output


_OF_NO_PARTITION = md.encode_metadata(
    md.PartitionChangeRecord(topic_id=UUID(int=5), partition_id=1)
)


@pytest.mark.parametrize("value", [b"", b"\xff" * 20, _OF_NO_PARTITION])
def test_batch_with_a_valid_checksum_and_no_usable_record_is_damage(
    tmp_path: Path, value: bytes
) -> None:
    made = LogWriter(tmp_path / "odd")
    made.append_bytes([value])
    made.close()
    with pytest.raises(BackupError, match=r"\.log is damaged: .*Use another backup"):
        read_contents(DirectoryFiles(tmp_path / "odd"))


def test_directory_that_may_not_be_searched_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    tmp_path.chmod(0o755)
    code = (
        "import os, sys; from pathlib import Path\n"
        "from quorum_node.backups.source import find_source\n"
        "from quorum_node.backups.manifest import BackupError\n"
        "os.setuid(65532)\n"
        "try: find_source(Path(sys.argv[1]), 'cluster')\n"
        "except BackupError as error: print(error)\n"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "closed")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.stdout.endswith("closed can't be read: Permission denied\n")


def test_only_object_stores_need_a_directory_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a container with a read-only root."""

    def none_is_usable() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none_is_usable)
    (tmp_path / "folder").mkdir()
    assert main(["list", str(tmp_path / "folder")]) == 0
    take = ["take", "--bootstrap", "127.0.0.1:1", "--timeout", "0", "--target"]
    assert main([*take, str(tmp_path / "folder")]) == 1
    assert "no leader answered" in capsys.readouterr().err
    assert main([*take, "s3://bucket/folder"]) == 1
    assert "specify one with --scratch, or in TMPDIR" in capsys.readouterr().err


def test_complete_backup_has_its_own_exit_code_if_older_ones_cannot_be_deleted(
    tmp_path: Path,
    leader: DirectoryReader,
    backup: Take,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A Job that tried again would add a backup each time."""
    target, summary = tmp_path / "target", tmp_path / "summary"
    first = backup()
    leader.close = lambda: None  # type: ignore[attr-defined]
    (target / f".deleting-{first.name}").touch()  # in the way of the rename before the deletion
    monkeypatch.setattr(command, "CommittedLog", lambda *_, **__: leader)
    take = ["take", "--bootstrap", "127.0.0.1:1", "--target", str(target), "--keep", "1"]
    assert main([*take, "--summary", str(summary)]) == 3
    second = backups_in(target)[-1].name
    assert second != first.name
    told = json.loads(summary.read_text())
    assert told["name"] == second
    assert f"{second} is complete, but older backups can't be deleted" in told["error"]
    assert told["error"] in capsys.readouterr().err


def test_commands_print_a_line_each_and_a_summary(
    tmp_path: Path, backup: Take, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, summary = tmp_path / "target", tmp_path / "summary"
    first = backup()
    assert main(["list", str(folder)]) == 0
    assert f"{first.name}  cluster cluster, taken 2027-01-15T08:00:00Z" in capsys.readouterr().out
    nobody = ["take", "--bootstrap", "127.0.0.1:1", "--target", str(folder), "--timeout", "0"]
    assert main([*nobody, "--summary", str(summary)]) == 1
    assert "no leader answered" in capsys.readouterr().err
    assert "no leader answered" in json.loads(summary.read_text())["error"]
    assert main(["list", str(tmp_path / "nowhere")]) == 1
    with pytest.raises(SystemExit) as wrong:
        main([*nobody, "--keep", "0"])
    assert wrong.value.code == 2
