"""What Spark's Python workers are forked from: a process with one thread, or a lock stays closed in them for ever."""

import subprocess
import sys

COUNT = """
import contextlib
import os
import resource
# A test process that has run a command itself allows none to its children, and can't raise that limit.
with contextlib.suppress(ValueError):
    resource.setrlimit(resource.RLIMIT_CORE, (4096, 4096))
from quorum_pipeline.spark import worker_daemon
worker_daemon.prepare()
print(*resource.getrlimit(resource.RLIMIT_CORE))
print(*(open(f"/proc/self/task/{each}/comm").read().strip() for each in os.listdir("/proc/self/task")))
"""


def test_worker_has_one_thread_after_all_imports_and_writes_no_core_dump() -> None:
    command = [sys.executable, "-c", COUNT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    limits, names = done.stdout.splitlines()
    assert len(names.split()) == 1, names
    assert limits == "0 0"
