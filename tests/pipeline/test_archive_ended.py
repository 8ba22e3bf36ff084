"""An archive as a process: a signal ends it in order, and a busy machine does not end it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.local_quorum import wait_until
from support.pipeline_process import run_pipeline
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
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
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


@pytest.mark.long
@pytest.mark.requirement("SP-02")
def test_worker_process_that_starts_too_late_for_spark_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark waits ten seconds for it, which no setting changes."""
    writer = LogWriter(tmp_path / "node")
    write_history(writer)
    writer.close()
    late = tmp_path / "python"
    late.write_text(
        f"""#!/bin/sh
case "$*" in *python_streaming_source_runner*) mkdir {tmp_path}/was-late 2>/dev/null && exec sleep 30;; esac
exec {sys.executable} "$@"
"""
    )
    late.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(late))
    done = run_pipeline("archive", "--log", tmp_path / "node", "--to", tmp_path / "archive")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "was-late").is_dir()
    assert "did not start within ten seconds: retrying" in done.stderr
    assert f"offsets 0 to {writer.end_offset}, {writer.end_offset} of them new" in done.stdout
