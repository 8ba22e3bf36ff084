"""The same command on any cluster: Spark's external settings are kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.pipeline_process import run_pipeline
from support.written_log import LogWriter, write_history

_TELL = """
from quorum_pipeline.spark.session import open_session

NAMES = ("spark.master", "spark.app.name", "spark.sql.shuffle.partitions")
NAMES += ("spark.ui.showConsoleProgress", "spark.sql.session.timeZone")
for name, master in (("the job", None), ("another", "local[2]")):
    session = open_session(name, master)
    conf = session.sparkContext.getConf()
    print("found", *map(conf.get, NAMES), sep="|")
    session.stop()
"""
_DEFAULTS = """
spark.master local[1]
spark.sql.shuffle.partitions 3
"""


@pytest.mark.long
@pytest.mark.requirement("SP-08")
def test_cluster_defaults_are_kept_and_a_named_master_takes_precedence(
    tmp_path: Path,
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(_DEFAULTS)
    environment = {**os.environ, "SPARK_CONF_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", _TELL],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    found = [line.split("|")[1:] for line in done.stdout.splitlines() if line.startswith("found|")]
    assert found == [
        ["local[1]", "the job", "3", "false", "UTC"],
        ["local[2]", "another", "3", "false", "UTC"],
    ]


@pytest.mark.long
def test_prepared_classes_are_used_and_optional(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METADATAQUORUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "loops"))
    done = run_pipeline("prepare")
    assert done.returncode == 0, done.stderr
    (classes,) = (tmp_path / "cache" / "spark-classes").iterdir()
    assert str(classes) in done.stdout
    assert list((tmp_path / "loops").rglob("*.nbi"))
    writer = LogWriter(tmp_path / "node")
    write_history(writer)
    writer.close()
    # The JVM reports the origin of a class.
    monkeypatch.setenv(
        "JDK_JAVA_OPTIONS", f"-Xlog:class+load:file={tmp_path}/loaded-%p.txt:none:filecount=0"
    )
    for number, damage in enumerate((b"", b"damaged")):
        if damage:
            classes.chmod(0o644)
            classes.write_bytes(damage)
        found = run_pipeline("archive", "--log", writer.directory, "--to", tmp_path / str(number))
        assert found.returncode == 0, found.stderr
        loaded = "".join(path.read_text() for path in tmp_path.glob("loaded-*.txt"))
        shared = "org.apache.spark.SparkContext source: shared objects file" in loaded
        assert shared == (not damage)
        for path in tmp_path.glob("loaded-*.txt"):
            path.unlink()


@pytest.mark.long
def test_plans_in_the_ui_show_no_credentials(spark: SparkSession) -> None:
    """Spark's UI and event log have the text of every query."""
    shown = spark.sql("SELECT 's3a://KEY:SEC/RET@bucket/a' AS a, 'hdfs://nn:8020/b@c' AS b")
    plan = shown._jdf.queryExecution().toString()
    assert "s3a://" in plan
    assert "bucket/a" in plan
    assert "KEY" not in plan
    assert "SEC/RET" not in plan
    assert "hdfs://nn:8020/b@c" in plan
