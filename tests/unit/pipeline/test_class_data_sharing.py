"""Which file holds Spark's classes, and the JVM options for it."""

from pathlib import Path

import pytest

from quorum_pipeline.spark.class_data_sharing import classes_file, options_to_make, options_to_use


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that is enough to be named."""
    path = tmp_path / "jdk" / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("METADATAQUORUM_CACHE", str(tmp_path / "cache"))
    return path


def test_different_java_or_jars_use_a_different_file(java: Path, tmp_path: Path) -> None:
    first = classes_file(tmp_path / "jars")
    assert first is not None
    assert first.parent == tmp_path / "cache" / "spark-classes"
    assert classes_file(tmp_path / "jars") == first
    assert classes_file(tmp_path / "others") != first
    java.unlink()
    assert classes_file(tmp_path / "jars") is None


def test_only_an_existing_file_is_used(java: Path, tmp_path: Path) -> None:
    file = classes_file(tmp_path / "jars")
    assert file is not None
    assert options_to_use(file) == options_to_use(None) == ""
    assert f"-XX:ArchiveClassesAtExit={file}" in options_to_make(file)
    file.touch()
    assert f"-XX:SharedArchiveFile={file}" in options_to_use(file)
    assert "-Xshare:auto" in options_to_use(file), "without it a file of another JVM is an error"
