"""A command has one directory for its temporary files, and removes it, however it ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.interruptible import interruptible
from support.local_quorum import wait_until
from support.written_log import LogWriter, write_history

SECONDS = 60


@pytest.fixture
def node(tmp_path: Path) -> Path:
    writer = LogWriter(tmp_path / "node")
    write_history(writer)
    writer.close()
    return tmp_path / "node"


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


def started(temporary: Path, *arguments: str | Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "quorum_pipeline", *map(str, arguments)]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with interruptible():
        return subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_command_that_a_signal_ends_leaves_no_temporary_files(
    node: Path, temporary: Path, tmp_path: Path, number: signal.Signals
) -> None:
    sizes = tmp_path / "sizes"
    os.mkfifo(sizes)
    options = ["--log", node, "--sizes", sizes, "--output", tmp_path / "plan.json"]
    with started(temporary, "plan", *options) as process:
        with sizes.open("w"):  # the command has opened it, too
            waits = Path(f"/proc/{process.pid}/wchan")
            wait_until(lambda: "pipe_read" in waits.read_text(), "the command reads", SECONDS)
            (made,) = temporary.iterdir()
            assert made.name.startswith("quorum-pipeline-")
            process.send_signal(number)
            _, output = process.communicate(timeout=SECONDS)
        assert process.returncode == 130
    assert output.splitlines()[-1] == "quorum-pipeline plan: interrupted"
    assert "Traceback" not in output
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_thread_that_hangs_does_not_keep_a_command_that_a_signal_ends(
    temporary: Path, number: signal.Signals
) -> None:
    """For example in a read of a file on a file system that hangs. Python awaits threads at its end."""
    program = (
        "import signal, sys, threading; from quorum_pipeline import scratch\n"
        "scratch.END_SECONDS = 1.0\n"
        "try:\n"
        "    with scratch.scratch_directory():\n"
        "        threading.Thread(target=threading.Event().wait).start()\n"
        "        print('hangs', flush=True)\n"
        "        while True: signal.pause()\n"  # an interrupted join would count the thread as ended
        "except KeyboardInterrupt:\n"
        "    sys.exit(scratch.INTERRUPTED)\n"
    )
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with interruptible():
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"hangs\n"
            process.send_signal(number)
            assert process.wait(20) == 130
        finally:
            process.kill()
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--show", "topics"], 0), (["--at-offset", "9999"], 2), (["--help"], 0), (["--typo"], 2)],
)
def test_command_that_ends_by_itself_leaves_no_temporary_files(
    node: Path, temporary: Path, arguments: list[str], code: int
) -> None:
    with started(temporary, "state", "--log", node, *arguments) as process:
        process.communicate(timeout=SECONDS)
        assert process.returncode == code
    assert not list(temporary.iterdir())


def test_help_needs_no_place_for_temporary_files(tmp_path: Path) -> None:
    """A container with a read-only root may have none."""
    program = (
        "import sys, tempfile; from quorum_pipeline.__main__ import main\n"
        "def none(*anything, **more): raise FileNotFoundError('no usable temporary directory')\n"
        "tempfile.mkdtemp = none\n"
        "sys.argv[1:] = ['state', '--help']\n"
        "sys.exit(main())"
    )
    subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=SECONDS, capture_output=True
    )
