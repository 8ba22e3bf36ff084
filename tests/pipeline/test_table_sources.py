"""States and changes as data sources and DataFrames; formats that plain PySpark finds by itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorum_pipeline.spark.frames import changes_frame, state_frame
from support.written_archive import write_archive
from support.written_log import LogWriter, write_history

_PLAIN = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sql(f"CREATE TEMPORARY VIEW p USING metadata_state OPTIONS (path '{sys.argv[1]}', table 'partitions', versionAsOf '52')")
print("found", [row.leader for row in spark.sql("SELECT leader FROM p ORDER BY partition_id").collect()])
changes = spark.read.format("metadata_changes").option("table", "topics").option("startingVersion", 52)
print("found", [(row.name, row._change_type) for row in changes.load(sys.argv[1]).collect()])
print("found", spark.read.format("metadata_log").schema("offset bigint").load(sys.argv[1]).count())
print("found", spark.read.format("metadata_archive").load(sys.argv[2]).where("offset < 52").count())
print("found", spark.read.format("metadata_snapshot").load(sys.argv[1]).where("type = 'TopicRecord'").count())
assert "quorum_pipeline" not in sys.modules
"""


@pytest.mark.long
@pytest.mark.requirement("SP-03")
def test_tables_as_frames_created_by_executors(spark: SparkSession, tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, segment_bytes=2_000)
    write_history(writer)
    writer.close()
    options = {"path": str(tmp_path), "table": "partitions", "versionAsOf": "52"}
    made = state_frame(spark, **options)
    read = spark.read.format("metadata_state").options(**options).load()
    assert made.schema == read.schema
    assert sorted(made.collect()) == sorted(read.collect())
    assert made.count() == 2
    changed = {"path": str(tmp_path), "table": "configs", "startingVersion": "0"}
    rows = changes_frame(spark, **changed | {"endingVersion": "52"}).collect()
    assert {row["_change_type"] for row in rows} == {"insert"}
    assert len(rows) == 40


@pytest.mark.long
@pytest.mark.requirement("SP-01")
def test_plain_pyspark_finds_all_formats(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, segment_bytes=2_000)
    write_history(writer)
    writer.snapshot()
    writer.close()
    write_archive(tmp_path / "archive", writer.directory, 0, 30, writer.end_offset)
    environment = {n: v for n, v in os.environ.items() if not n.startswith(("PYSPARK", "SPARK"))}
    done = subprocess.run(
        [sys.executable, "-c", _PLAIN, str(writer.directory), str(tmp_path / "archive")],
        env=environment | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=240,
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("found")]
    assert found == [
        "found [2, 2]",
        "found [('orders', 'delete')]",
        f"found {writer.end_offset}",
        "found 52",
        "found 0",
    ], done.stderr[-3000:]
