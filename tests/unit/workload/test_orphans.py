"""A workload ends when its parent was killed: it would write into the quorum that gets its port next."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from support.source_tree import ROOT

_LOOP = """
import os, sys
from support.workload.arguments import Bounds
bounds = Bounds(max_seconds=60, max_count=10**9, interval_ms=5)
print(os.getpid(), flush=True)
while not bounds.over:
    bounds.pace()
print("over", flush=True)
"""
_STARTER = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_LOOP!r}])"


def test_event_loop_ends_when_its_parent_process_was_killed() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    with subprocess.Popen(
        [sys.executable, "-c", _STARTER], env=environment, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        loop = int(starter.stdout.readline())
        starter.send_signal(signal.SIGKILL)
        try:
            assert starter.stdout.read() == "over\n", "until the loop has closed it as well"
        finally:
            if Path(f"/proc/{loop}").exists():
                os.kill(loop, signal.SIGKILL)
