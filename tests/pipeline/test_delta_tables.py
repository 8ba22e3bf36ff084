"""Versions as Delta tables, with the real Delta Lake: kept up by later runs and while following, read at any commit."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from quorum_node.image.resource_types import TOPIC
from quorum_pipeline.archive.layout import OffsetRange
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.version_files import VersionStore
from quorum_pipeline.spark.delta_tables import DeltaTables
from support.delta_lake import spark_with_delta
from support.local_quorum import wait_until
from support.metadata_records import config
from support.pipeline_process import PipelineProcess, run_pipeline
from support.written_log import LogWriter, write_history

STEP = 20
READER = Path(__file__).with_name("delta") / "read_tables.py"


def test_spark_without_delta_says_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    tables = DeltaTables(spark, f"file://{tmp_path}/delta")
    with pytest.raises(PipelineError, match="Spark has no classes of Delta Lake: add the release"):
        tables.check(VersionStore(tmp_path / "versions"))


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.requirement("SP-03")
def test_delta_tables_are_the_parquet_files_at_every_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in spark_with_delta(tmp_path / "conf").items():
        monkeypatch.setenv(name, value)
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    first_end = writer.end_offset
    to, delta = tmp_path / "versions", tmp_path / "delta tables"
    options: tuple[object, ...] = ("versions", "--log", writer.directory, "--to", to)
    # What was written without Delta is added by the first run with it, in one commit.
    succeeded(*options, "--max-rows", STEP)
    options += ("--to-delta", delta)
    succeeded(*options)
    writer.append(config(TOPIC, "a", "b", "later"))
    with PipelineProcess(
        tmp_path / "output", *options, "--master", "local[2]", "--follow", "--every", "0.5"
    ) as following:
        wait_until(
            lambda: commits(delta, "configs") > 2 or not following.is_running, "a commit", 240
        )
        # It is killed after the Parquet files, at some point of the Delta tables.
        writer.append(config(TOPIC, "a", "b", "last"))
        wait_until(
            lambda: (to / at(first_end + 1, first_end + 2)).exists() or not following.is_running,
            "the next step",
            240,
        )
        following.kill()
    writer.close()
    succeeded(*options)
    found = read_tables(to, delta)
    assert found.pop("differ") == []
    commits_of_configs = found["configs"]["history"]
    assert commits_of_configs[:2] == [None, at(0, first_end)]
    assert commits_of_configs[2:] == [
        at(first_end, first_end + 1),
        at(first_end + 1, first_end + 2),
    ]
    assert found["configs"]["last values"] == ["later", "last"]
    assert found["voters"]["history"] == [None, at(0, first_end)], "nothing new, no commit"
    # Another history does not continue them.
    other = LogWriter(tmp_path / "other")
    write_history(other)
    other.append(config(TOPIC, "x", "y", "z"), config(TOPIC, "x", "y", "w"))
    other.close()
    options = ("versions", "--log", other.directory, "--to", tmp_path / "of the other")
    succeeded(*options)
    done = run_pipeline(*options, "--to-delta", delta)
    assert done.returncode == 2
    assert "it is of another history" in done.stderr
    assert commits(delta, "configs") == 4


def at(start: int, end: int) -> str:
    return OffsetRange(start, end).directory


def succeeded(*arguments: object) -> str:
    done = run_pipeline(*arguments, timeout_seconds=400)
    assert done.returncode == 0, done.stderr
    return done.stdout


def commits(delta: Path, table: str) -> int:
    return len(list((delta / table / "_delta_log").glob("*.json")))


def read_tables(to: Path, delta: Path) -> dict[str, Any]:
    """What another process finds: Spark's class path is that of the first session of a process."""
    command = [sys.executable, str(READER), str(to), str(delta), "configs", "partitions", "voters"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
