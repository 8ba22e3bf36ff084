"""Which copy of Spark's home, and which archive of classes, the Spark session of tests takes."""

import os
from pathlib import Path

import pytest
from pyspark import SparkContext

from quorum_pipeline.spark import session
from quorum_pipeline.spark.class_data_sharing import classes_file
from support import quick_spark
from support.quick_spark import home_for, kept_home, link_home


def installed(site: Path, content: str = "a jar") -> Path:
    """A checkout's PySpark; its record has the content's name in place of a hash."""
    spark = site / "pyspark"
    for name in ("bin/spark-submit", "jars/a.jar", "python/lib/pyspark.zip", "sql/types.py"):
        path = spark / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    record = site / "pyspark-1.dist-info" / "RECORD"
    record.parent.mkdir(exist_ok=True)
    names = ("bin/spark-submit", "jars/a.jar", "python/lib/pyspark.zip", "sql/types.py")
    record.write_text("".join(f"pyspark/{each},sha256={content},5\n" for each in names))
    return spark


@pytest.fixture(autouse=True)
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that is enough to be named."""
    path = tmp_path / "jdk" / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("METADATAQUORUM_CACHE", str(tmp_path / "cache"))
    return path


def test_checkouts_with_the_same_jars_share_a_home(tmp_path: Path) -> None:
    one, other = installed(tmp_path / "one"), installed(tmp_path / "other")
    home = home_for(one)
    assert home is not None
    assert home == home_for(other)
    assert home.is_relative_to(tmp_path / "cache")
    assert home_for(installed(tmp_path / "newer", "another jar")) != home
    (other / "jars" / "added.jar").write_text("by hand")
    assert home_for(other) != home
    (tmp_path / "one" / "pyspark-1.dist-info" / "RECORD").unlink()
    assert home_for(one) is None


def test_home_has_the_files_with_their_times_and_is_made_once(tmp_path: Path) -> None:
    spark = installed(tmp_path / "one")
    os.utime(spark / "jars" / "a.jar", ns=(1, 1))
    home = home_for(spark)
    assert home is not None
    link_home(spark, home)
    assert (home / "jars" / "a.jar").read_text() == "a jar"
    assert (home / "jars" / "a.jar").stat().st_mtime_ns == 1
    assert {each.name for each in home.iterdir()} == {"bin", "jars", "python"}
    link_home(installed(tmp_path / "two", "other files"), home)
    assert (home / "jars" / "a.jar").read_text() == "a jar"
    assert [each.name for each in home.parent.iterdir()] == [home.name]


def test_home_is_used_only_with_an_archive_of_the_present_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: Path
) -> None:
    spark = installed(tmp_path / "one")
    monkeypatch.setattr(quick_spark, "SPARK_HOME", spark)
    home = home_for(spark)
    assert home is not None
    link_home(spark, home)
    assert kept_home() is None
    file = classes_file(home / "jars")
    assert file is not None
    file.parent.mkdir(parents=True)
    file.touch()
    assert kept_home() == home
    os.utime(java, (1, 1))
    assert kept_home() is None, "the JVM would ignore the archive of another Java"
    java.unlink()
    assert kept_home() is None


def test_only_java_starts_from_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process, and others that it starts, have their own Spark."""
    seen: list[str | None] = []
    monkeypatch.delenv("SPARK_HOME", raising=False)

    def initialized(conf: object) -> None:
        seen.append(os.environ.get("SPARK_HOME"))

    monkeypatch.setattr(SparkContext, "_ensure_initialized", initialized)
    monkeypatch.setattr(SparkContext, "_jvm", None)
    for home in (tmp_path / "home", None):
        session._given({}, "", "local[2]", home)
    assert seen == [str(tmp_path / "home"), None]
    assert "SPARK_HOME" not in os.environ
