"""Commands that are interrupted, or whose output nobody reads: a code of their own, and no stack."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quorum_node.image.resource_types import TOPIC
from support.interruptible import interruptible
from support.local_quorum import wait_until
from support.metadata_records import config
from support.written_log import LogWriter, broker, write_history

SECONDS = 60


def started(*arguments: str | Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "quorum_pipeline", *map(str, arguments)]
    with interruptible():
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
        )


@pytest.mark.parametrize("rows", [1, 2_000], ids=["all in the buffer", "more than a pipe takes"])
def test_output_that_nobody_reads_ends_the_command(tmp_path: Path, rows: int) -> None:
    writer = LogWriter(tmp_path / "node")
    for number in range(rows):
        writer.append(config(TOPIC, f"t-{number}", "retention.ms", "1"))
    writer.close()
    with started("state", "--log", tmp_path / "node", "--show", "configs") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        output = process.stderr.read()
        assert process.wait(SECONDS) == 141, output
    assert "Traceback" not in output
    assert "Exception" not in output
    assert "Broken pipe" not in output


def test_interrupted_command_says_so(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "node")
    writer.append(broker(1))
    write_history(writer)
    writer.close()
    sizes = tmp_path / "sizes"
    os.mkfifo(sizes)
    options = ["--log", tmp_path / "node", "--sizes", sizes, "--output", tmp_path / "plan.json"]
    with started("plan", *options) as process:
        with sizes.open("w"):  # the command has opened it, too
            # A signal just before that call would be handled only after it.
            waits = Path(f"/proc/{process.pid}/wchan")
            wait_until(lambda: "pipe_read" in waits.read_text(), "the command reads", SECONDS)
            process.send_signal(signal.SIGINT)
            _, output = process.communicate(timeout=SECONDS)
        assert process.returncode == 130
    assert output.splitlines()[-1] == "quorum-pipeline plan: interrupted"
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (">&-", "quorum-pipeline: the output can't be written: it is closed"),
        (
            ">/dev/full",
            "quorum-pipeline state: No space left on device: of the output, or of the d",
        ),
        (">/dev/null 2>&-", ""),
        (">&- 2>&-", ""),
    ],
)
def test_output_that_cannot_be_written_is_an_error(tmp_path: Path, output: str, says: str) -> None:
    writer = LogWriter(tmp_path / "node")
    writer.append(broker(1))
    writer.close()
    command = [sys.executable, "-m", "quorum_pipeline", "state", "--log", str(tmp_path / "node")]
    line = f"{shlex.join([*command, '--show', 'brokers'])} {output}"
    done = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == (0 if "null" in output else 2)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert (done.stderr.splitlines() or [""])[-1].startswith(says)
