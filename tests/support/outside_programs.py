"""`make programs`: compiles or fetches the external programs of the tests once, before the tests run, and compiles a new checkout.

A test's time limit covers the test only. Compiling Kubernetes takes minutes on a new machine, and would count for the first test that
needs it. If a program is not available, this is reported; the tests that need it report it again.
"""

import functools
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

# The testbed is a separate program beside its Go modules and node files, not a package of tests/.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e" / "kind"))

from testbed import programs, prometheus
from testbed.commands import TestbedError
from testbed.progress import say

from support import kafka_class_archive, quick_spark, stock_kafka
from support.compiled_checkout import compiled_meanwhile
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
    "promtool": functools.partial(prometheus.program, "promtool"),
    "stock Kafka": kafka_class_archive.keep,
    "the linearizability checker": checker.program,
}
NEEDED_LAST: dict[str, Callable[[], object]] = {
    "the archive of Spark's classes": quick_spark.write_class_archive,
}
"""Made with the compiled loops of the checkout."""


def main() -> None:
    """One after the other: a compiler uses all cores by itself."""
    with compiled_meanwhile():
        _get(NEEDED)
    _get(NEEDED_LAST)


def _get(wanted: dict[str, Callable[[], object]]) -> None:
    for name, get in wanted.items():
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
