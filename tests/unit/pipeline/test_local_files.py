"""Which names are local paths follows Hadoop: nothing in them is escaped, and a colon ends a scheme."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from quorum_pipeline.archive.layout import OffsetRange
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.local_files import (
    LocalFiles,
    file_uri,
    is_local,
    local_path,
    size_of,
)
from quorum_pipeline.files.version_files import StoredVersions, VersionStore, WrittenFile


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/a/b", "/a/b"),
        ("a/b", "a/b"),
        ("./a/../b", "b"),
        ("../a", "../a"),
        ("/a b/c%20d#e:f?g", "/a b/c%20d#e:f?g"),
        ("a/b:c", "a/b:c"),
        ("file:/a%20b", "/a%20b"),
        ("file:///a//b c/", "/a/b c"),
        ("file://host/a", None),
        ("file:a", None),
        ("//host/a", None),
        ("hdfs://name:9000/a", None),
        ("s3a://bucket/a", None),
        ("a:b", None),
        ("", None),
    ],
)
def test_file_name_has_the_same_meaning_as_in_hadoop(uri: str, path: str | None) -> None:
    assert local_path(uri) == (None if path is None else Path(path))


def test_path_without_scheme_may_depend_on_a_spark_setting() -> None:
    settings = {"HADOOP_CONF_DIR": "/etc/hadoop"}
    assert is_local("/a", {})
    assert not is_local("/a", settings)
    assert is_local("file:/a", settings)
    assert not is_local("hdfs:/a", {})


def test_files_of_versions_are_local_whatever_the_default_file_system_of_spark_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert file_uri(Path("a b")) == f"file://{tmp_path}/a b"
    found = StoredVersions(OffsetRange(0, 1), (WrittenFile("topics", "part", 1),), None)
    paths = VersionStore(Path("versions")).paths("topics", [found])
    assert paths == [f"file://{tmp_path}/versions/{found.offsets.directory}/topics/part"]


def test_existing_and_missing_files(tmp_path: Path) -> None:
    files = LocalFiles()
    for name in ("b", "a", ".a.crc", ".hidden"):
        (tmp_path / name).write_text(name)
    assert files.list(str(tmp_path)) == [".hidden", "a", "b"]
    assert files.list(f"file://{tmp_path}/none") == files.list(f"{tmp_path}/a") == []
    assert files.read(f"file:{tmp_path}/a") == "a"
    assert files.read(f"{tmp_path}/none") is files.read(f"{tmp_path}/a/b") is None
    assert files.fetch(f"{tmp_path}/a", tmp_path / "scratch") == tmp_path / "a"
    with pytest.raises(PipelineError, match="hdfs:/a is not in the file system of this machine"):
        files.list("hdfs:/a")


def test_files_deleted_meanwhile_do_not_count(tmp_path: Path) -> None:
    """As in a directory to which another process writes."""
    (tmp_path / "kept").write_bytes(b"12345")
    changing = tmp_path / "changing"
    is_done = Event()

    def change() -> None:
        while not is_done.is_set():
            changing.mkdir()
            for number in range(20):
                (changing / str(number)).touch()
            shutil.rmtree(changing)

    with ThreadPoolExecutor(1) as pool:
        changed = pool.submit(change)
        try:
            for _ in range(300):
                assert size_of(tmp_path) == 5
                assert all(each.size_bytes == 0 for each in LocalFiles().stored(str(changing)))
        finally:
            is_done.set()
    changed.result()
