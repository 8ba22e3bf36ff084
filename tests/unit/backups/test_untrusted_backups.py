"""Backups and settings that somebody else wrote: no file outside of a backup is read, and no credentials are shown."""

import json
import os
from pathlib import Path

import pytest

from quorum_node.archiver.main import main
from quorum_node.backups.manifest import BackupError, FileEntry, Manifest, read_manifest
from quorum_node.backups.object_address import ObjectAddress
from quorum_node.backups.object_store import connect

ADDRESS = ObjectAddress("bucket", "folder")
OWN = "__cluster_metadata-0/00000000000000000000.log"


def write_manifest(path: Path, name: str) -> None:
    entry = FileEntry(name, 0, "")
    path.mkdir(parents=True)
    made = Manifest("c", 1_800_000_000, 5, 1, 0, (entry,))
    (path / "backup.json").write_bytes(made.to_json())


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "__cluster_metadata-0/../../secret",
        "__cluster_metadata-0/..",
        "__cluster_metadata-0/a/b",
        "__cluster_metadata-0/\0",
        "__cluster_metadata-0/a\n",
        "/dev/zero",
        "",
    ],
)
def test_manifest_names_files_of_its_own_backup_only(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "secret")  # a reader would wait for ever
    write_manifest(tmp_path / "folder" / "backup", name)
    assert main(["verify", str(tmp_path / "folder" / "backup")]) == 1
    assert "is not a file of a backup" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["backup.json", OWN])
@pytest.mark.parametrize("what", ["pipe", "device", "folder"])
def test_file_of_a_backup_that_is_none_is_an_error(
    file: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The readers of a pipe or of /dev/zero would never end."""
    write_manifest(tmp_path / "b", OWN)
    path = tmp_path / "b" / file
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    if what == "pipe":
        os.mkfifo(path)
    elif what == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    assert main(["verify", str(tmp_path / "b")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{path} " in line


def test_manifest_names_files_of_the_partition(tmp_path: Path) -> None:
    write_manifest(tmp_path / "b", OWN)
    assert [each.name for each in read_manifest(tmp_path / "b").files] == [OWN]
    document = json.loads((tmp_path / "b" / "backup.json").read_bytes())
    document["files"][0]["name"] = 5
    (tmp_path / "b" / "backup.json").write_text(json.dumps(document))
    with pytest.raises(BackupError, match="is damaged"):
        read_manifest(tmp_path / "b")


@pytest.mark.parametrize("endpoint", ["http://u:a-secret@127.0.0.1:1", "u:a-secret@127.0.0.1:1"])
@pytest.mark.parametrize("place", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_CONFIG_FILE"])
def test_credentials_in_an_endpoint_of_the_environment_are_not_shown(
    endpoint: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    (tmp_path / "config").write_text(f"[default]\nendpoint_url = {endpoint}\n")
    monkeypatch.setenv(place, str(tmp_path / "config") if place == "AWS_CONFIG_FILE" else endpoint)
    with pytest.raises(BackupError, match="without credentials") as refused:
        connect(ADDRESS).folders("")
    assert "a-secret" not in str(refused.value)
