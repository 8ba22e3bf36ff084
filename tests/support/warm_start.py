"""Pytest plugin: nodes begin as copies of a process that has loaded the node's code already.

Each is a process of its own that runs the node's own `main`, with its own arguments and log; only loading the
code again, half of what a short-lived node costs, is saved. Nodes of another module, or behind a prefix, and all
nodes outside of pytest (the benchmark) start cold, as does the product on kind.
"""

import os
import subprocess
import sys
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from signal import Signals

import pytest

from support import local_quorum
from support.local_quorum import NODE_MODULE, NodeProcess, NodeStart

_CONTEXT = get_context("forkserver")


class WarmProcess:
    """What the tests use of `subprocess.Popen`."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        self._process: ForkServerProcess = _CONTEXT.Process(
            target=_run, args=(arguments, str(log)), daemon=True
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """The exit code, None while it runs; -n after signal n."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when it has ended. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("quorum-node", timeout or 0)
        return code

    def send_signal(self, number: Signals) -> None:
        """Nothing happens once it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()


def _run(arguments: list[str], log: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    from quorum_node.server.process.main import main

    sys.exit(main(arguments))


def _start(cold: NodeStart) -> NodeStart:
    def start(prefix: list[str], module: str, arguments: list[str], log: Path) -> NodeProcess:
        if prefix or module != NODE_MODULE:
            return cold(prefix, module, arguments, log)
        return WarmProcess(arguments, log)

    return start


def pytest_configure(config: pytest.Config) -> None:
    _CONTEXT.set_forkserver_preload(
        ["quorum_node.server.process.main", "pydantic.v1", "support.warm_start"]
    )
    local_quorum.start_process = _start(local_quorum.start_process)
