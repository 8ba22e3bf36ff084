"""An archive as a process: a signal ends it in order."""

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
