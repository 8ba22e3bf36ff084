"""What Spark's Python workers are forked from: a process with one thread, or a lock stays closed in them for ever."""

import subprocess
import sys

COUNT = """
import os
from quorum_pipeline.spark import worker_daemon
worker_daemon.prepare()
print(*(open(f"/proc/self/task/{each}/comm").read().strip() for each in os.listdir("/proc/self/task")))
"""


def test_worker_has_one_thread_after_all_imports() -> None:
    command = [sys.executable, "-c", COUNT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 1, done.stdout
