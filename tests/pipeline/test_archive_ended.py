"""An archive as a process: a signal ends it in order."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.interruptible import interruptible
from support.local_quorum import wait_until
from support.written_log import LogWriter, write_history


@pytest.mark.long
@pytest.mark.requirement("SP-02")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_the_archiver_between_two_polls(
    number: signal.Signals, tmp_path: Path
) -> None:
    """SIGTERM is what ends a pod, SIGINT a person at the keyboard."""
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    writer.close()
    archive = tmp_path / "archive"
    command = [sys.executable, "-m", "quorum_pipeline", "archive", "--follow", "--every", "0.5"]
    command += ["--log", str(tmp_path / "node"), "--to", str(archive), "--master", "local[1]"]
    with interruptible():
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    with process:
        try:
            wait_until(lambda: any(archive.glob("records/*/_COMPLETE")), "the first records", 240)
            process.send_signal(number)
            found_report, reported = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, reported
    assert "stopping" in reported
    assert "Traceback" not in reported
    assert f"offsets 0 to {writer.end_offset}" in found_report


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_at_the_start_of_spark_leaves_no_temporary_files(
    number: signal.Signals, tmp_path: Path
) -> None:
    """Java's files are in the same directory as those of the command, which outlives Java."""
    writer = LogWriter(tmp_path / "node")
    write_history(writer)
    writer.close()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "quorum_pipeline", "state", "--log", str(tmp_path / "node")]
    with interruptible():
        process = subprocess.Popen(
            [*command, "--show", "topics", "--master", "local[1]"],
            env={**os.environ, "TMPDIR": str(temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    with process:
        try:
            wait_until(lambda: any(temporary.glob("*/spark-*")), "Java has begun", 120)
            process.send_signal(number)
            _, reported = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, reported
    assert reported.splitlines()[-1] == "quorum-pipeline state: interrupted"
    assert "Traceback" not in reported
    assert not list(temporary.iterdir())
