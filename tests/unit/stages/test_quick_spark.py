"""Which archive of classes the Spark session of tests takes."""

import os
from pathlib import Path

import pytest

from support import quick_spark


def test_archive_of_replaced_jars_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JVM would ignore it silently, and nobody would make another one."""
    monkeypatch.setattr(quick_spark, "SPARK_HOME", tmp_path)
    (tmp_path / "jars").mkdir()
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    first = quick_spark.kept_classes_file()
    assert first is not None
    assert quick_spark.kept_classes_file() == first
    os.utime(tmp_path / "jars", ns=(1, 1))
    assert quick_spark.kept_classes_file() != first
