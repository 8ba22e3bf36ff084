"""Every command (`--remote`) and data source on a Spark Connect server, with the outcome that it has without one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyarrow.parquet import read_table

from quorum_node.records import metadata as md
from support.pipeline_process import run_pipeline
from support.ports import free_ports
from support.written_archive import write_archive
from support.written_log import LogWriter, write_history

START_SECONDS = 120.0
_SERVER = """
import sys
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
    .config("spark.connect.grpc.binding.address", "127.0.0.1")
    .config("spark.connect.grpc.binding.port", sys.argv[1])
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
print("ready", flush=True)
sys.stdin.read()
spark.stop()
"""
_SOURCES = """
import sys
from pyspark.sql import SparkSession

where, log, archive = sys.argv[1:]
builder = SparkSession.builder
spark = (builder.remote(where) if where.startswith("sc:") else builder.master(where)).getOrCreate()
columns = "offset bigint, timestamp timestamp, type string, key string"
for format, path, more in (
    ("metadata_log", log, {}),
    ("metadata_archive", archive, {"startOffset": "5"}),
    ("metadata_snapshot", log, {}),
    ("metadata_state", log, {"table": "partitions", "versionAsOf": "52"}),
    ("metadata_changes", archive, {"table": "configs", "startingVersion": "20"}),
):
    reader = spark.read.format(format).options(**more)
    rows = (reader if "table" in more else reader.schema(columns)).load(path).collect()
    print("found", format, len(rows), sorted(map(repr, rows)))
spark.sql(f"CREATE TEMPORARY VIEW p USING metadata_state OPTIONS (path '{archive}', table 'topics', versionAsOf '52')")
print("found", spark.sql("SELECT * FROM p").collect())
spark.stop()
"""
"""Every format in batch, printed row by row."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server in a process of its own; it ends with its standard input."""
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n", pyspark.__version__
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.stdin.close()
        process.wait(START_SECONDS)
        process.stdout.close()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.requirement("SP-08")
def test_every_command_runs_on_a_connect_server(server: str, tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    writer.append(md.FenceBrokerRecord(id=1, epoch=1))
    writer.snapshot()
    writer.close()
    log = ["--log", tmp_path / "node"]
    restored = ["--voter", "1@h:9093", "--replica-uuid", "AAAAAAAAAAAAAAAAAAAAFQ"]
    for number, options in enumerate(
        (
            ["state", *log, "--at-offset", "52", "--show", "partitions"],
            ["diff", *log, "--from", "10", "--to", "52", "--json"],
            ["audit", tmp_path / "node", "--json"],
            ["timeline", *log],
            ["restore", *log, *restored],
            ["plan", *log, "--at-offset", "52"],
        )
    ):
        reported = []
        for where in (["--master", "none"], ["--remote", f"{server}/;user_id=private"]):
            out = tmp_path / f"out-{number}"
            more = ["--output", out] if options[0] in ("restore", "plan") else []
            done = run_pipeline(*options, *more, *where)
            assert done.returncode == 0, done.stderr[-3000:]
            assert "private" not in done.stdout + done.stderr, "a token would be told as well"
            lines = done.stdout.splitlines()
            reported.append(
                [line for line in lines if not line.startswith("  ") and " s" not in line]
            )
            if out.exists():
                out.rename(tmp_path / f"kept-{number}-{len(reported)}")
        assert reported[0] == reported[1], options
    one, other = (tmp_path / f"kept-5-{number}" for number in (1, 2))
    assert one.read_bytes() == other.read_bytes()
    first, second = (sorted((tmp_path / f"kept-4-{n}").rglob("*.checkpoint")) for n in (1, 2))
    assert [each.read_bytes() for each in first] == [each.read_bytes() for each in second]


@pytest.mark.long
@pytest.mark.requirement("SP-08")
def test_versions_run_on_a_connect_server(server: str, tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    writer.close()
    found = []
    for number, where in enumerate((["--master", "none"], ["--remote", server])):
        to = tmp_path / f"versions-{number}"
        options = ["versions", "--log", tmp_path / "node", "--to", to, "--max-rows", "40"]
        done = run_pipeline(*options, *where)
        assert done.returncode == 0, done.stderr[-3000:]
        paths = sorted(to.glob("offsets=*/*/*.parquet"))
        rows = [
            (path.parts[-2], str(row)) for path in paths for row in read_table(path).to_pylist()
        ]
        found.append(sorted(rows))
    assert found[0] == found[1]
    assert found[0]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_data_sources_return_the_same_rows_over_connect(server: str, tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    writer.snapshot()
    writer.close()
    log, archive = str(writer.directory), tmp_path / "archive"
    write_archive(archive, writer.directory, 0, 30, writer.end_offset, deltas=True)
    found = []
    for where in ("local[1]", server):
        done = subprocess.run(
            [sys.executable, "-c", _SOURCES, where, log, str(archive)],
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        found.append([each for each in done.stdout.splitlines() if each.startswith("found")])
    assert found[0] == found[1]
    assert len(found[0]) == 6
    assert found[0][0].startswith(f"found metadata_log {writer.end_offset} ")


@pytest.mark.long
def test_commands_unsupported_over_connect_are_reported(server: str, tmp_path: Path) -> None:
    for options, reported in (
        (["archive", "--log", tmp_path, "--to", tmp_path / "a", "--remote", server], "--master"),
        (
            ["state", "--archive", "hdfs://h/a", "--remote", server],
            "needs --master, and not --remote",
        ),
        (["state", "--log", tmp_path, "--remote", "sc://127.0.0.1:1"], "can't be used"),
    ):
        done = run_pipeline(*options)
        assert done.returncode == 2
        assert reported in done.stderr
