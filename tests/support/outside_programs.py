"""`make programs`: what the tests take from outside, compiled or fetched once, before their clocks run.

A test's time limit says how long the test may take. Compiling Kubernetes takes minutes on a new machine, and whoever
happened to need it first would be charged with that. A program that can't be had is told, and left to the tests that
need it: they say so where it matters.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

# The test bed is a program of its own beside its Go modules and node files, no package of tests/.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e" / "kind"))

from testbed import programs
from testbed.commands import TestbedError
from testbed.progress import say

from support import kept_kafka_classes, stock_kafka
from support.java_clients import ClientFailed
from support.linearizability import checker

FAILURES = (
    TestbedError,
    stock_kafka.KafkaUnavailable,
    ClientFailed,
    RuntimeError,
    OSError,
    subprocess.SubprocessError,
)
NEEDED: dict[str, Callable[[], object]] = {
    "kube-apiserver, etcd and kubectl": programs.kubernetes,
    "helm": programs.helm,
    "stock Kafka": kept_kafka_classes.keep,
    "the linearizability checker": checker.program,
}


def main() -> None:
    """Each in turn: a compiler uses all cores by itself."""
    for name, get in NEEDED.items():
        begun = time.monotonic()
        try:
            get()
        except FAILURES as error:
            say(f"{name} can't be had, tests that need it will fail or take longer: {error}")
        else:
            took = time.monotonic() - begun
            if took > 1:
                say(f"{name}: ready after {took:.0f} s; kept for the next time")


if __name__ == "__main__":
    main()
