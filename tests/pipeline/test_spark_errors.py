"""Failures of Spark itself: every command reports them in one line with exit code 2, without a stack of Java or Python."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorum_node.records import metadata as md
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.archive_job import ArchiveJob
from support.local_quorum import wait_until
from support.pipeline_process import PipelineProcess, run_pipeline
from support.written_log import LogWriter

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

KILL_ITSELF, KILL_ITS_EXECUTOR = "kill -9 $$", "kill -9 $PPID"
"""What an interpreter of tasks does instead of running them."""
ENDED = "Spark's Java process has ended"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    writer = LogWriter(tmp_path / "node", segment_bytes=700)
    for _ in range(10):
        writer.append(md.NoOpRecord(), md.NoOpRecord())
    writer.close()
    return writer.directory


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def check_told(output: str, command: str, says: str) -> None:
    assert "Traceback" not in output, output
    assert "\tat " not in output, output
    last = output.splitlines()[-1]
    assert last.startswith(f"quorum-pipeline {command}: "), output
    assert says in last


@pytest.mark.parametrize(
    ("command", "master", "acts", "says"),
    [
        ("archive", "local[1]", KILL_ITSELF, "offsets 0 to 20 are not archived"),
        ("state", "local[1]", KILL_ITSELF, "Spark at local[1]: "),
        ("archive", "local[1]", KILL_ITS_EXECUTOR, ENDED),
        ("state", "local[1]", KILL_ITS_EXECUTOR, ENDED),
        ("archive", "local-cluster[1,1,1024]", KILL_ITS_EXECUTOR, "ExecutorLostFailure"),
    ],
)
def test_killed_worker_executor_and_driver_are_reported_in_one_line(
    command: str, master: str, acts: str, says: str, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setenv("PYSPARK_PYTHON", str(script(tmp_path / "python", acts)))
    more = ["--to", tmp_path / "archive"] if command == "archive" else []
    done = run_pipeline(command, "--log", log, *more, "--master", master, timeout_seconds=600)
    assert done.returncode == 2, done.stderr
    check_told(done.stderr, command, says)


@pytest.mark.parametrize("command", ["archive", "state", "prepare"])
def test_java_that_does_not_start_is_reported_in_one_line(
    command: str, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = script(tmp_path / "java" / "bin" / "java", "echo this Java is too old >&2; exit 1")
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    more = ["--to", tmp_path / "archive"] if command == "archive" else []
    where = [] if command == "prepare" else ["--log", log]
    done = run_pipeline(command, *where, *more, "--master", "local[1]")
    assert done.returncode == 2, done.stderr
    check_told(done.stderr, command, "Spark's Java process did not start")
    assert "this Java is too old" in done.stderr


def test_java_killed_between_two_polls_ends_the_archiver(tmp_path: Path) -> None:
    writer, archive = LogWriter(tmp_path / "node"), tmp_path / "archive"
    writer.record_committed(writer.append(md.NoOpRecord()))
    options = ["archive", "--log", tmp_path / "node", "--to", archive, "--master", "local[1]"]
    with PipelineProcess(tmp_path / "output", *options, "--follow", "--every", "0.2") as process:
        wait_until(lambda: any(archive.glob("records/*/_COMPLETE")), "the first records", 240)
        process.kill_java()
        # A poll of a directory needs no Java: the next record does.
        writer.record_committed(writer.append(md.NoOpRecord()))
        assert process.wait_exit() == 2, process.output
        check_told(process.output, "archive", ENDED)
    writer.close()
    done = run_pipeline(*options)
    assert "offsets 0 to 2" in done.stdout, done.stderr


def test_missing_directory_of_an_archive_is_reported_in_one_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark finds it when the query is made, not when it runs."""
    writer = LogWriter(tmp_path / "node")
    known = md.encode_metadata(md.NoOpRecord())
    writer.append_bytes([known, known[:2] + b"\x63" + known[3:]])
    writer.close()
    archive = Archive(spark, str(tmp_path / "archive"))
    ArchiveJob(archive, open_log(writer.directory), 1_000_000, None).run(lambda end: None, print)
    assert [*archive.quarantined_places(5)]
    shutil.rmtree(tmp_path / "archive" / "quarantine")
    with pytest.raises(PipelineError, match=r"quarantine of .* can't be read: .*PATH_NOT_FOUND"):
        [*archive.quarantined_places(5)]
