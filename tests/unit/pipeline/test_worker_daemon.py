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
    assert limits in ("1 1", "0 0")


def test_collection_after_a_task_does_not_visit_what_earlier_tasks_loaded() -> None:
    """Not even what only a task has loaded: a worker collects after each one."""
    code = """
import gc
from quorum_pipeline.spark.worker_daemon import freezing

loaded = []

def task(number):
    loaded.append([[] for _ in range(1000)])
    cycle = []
    cycle.append(cycle)
    cycles.append(__import__("weakref").ref(type("Left", (), {"me": cycle})))
    return number

cycles = []
run = freezing(task)
for number in range(3):
    assert run(number) == number
assert gc.get_freeze_count() > 3000
visited = {id(each) for each in gc.get_objects()}
assert not [each for some in loaded for each in some if id(each) in visited]
assert not [each for each in cycles if each() is not None], "garbage of a task stays"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
