"""Starts a program as a fork of a process that has loaded its code already, which saves a second of CPU.

The fork is a separate process that runs the same module, with its own arguments, environment, log and, on request, network and view of
the file system. Only loading the code is saved. It ends with the process that was forked, and that ends with the test run.
"""

import asyncio
import ctypes
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from multiprocessing.context import ForkServerProcess
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from signal import SIGKILL, Signals

NODE = ("support.loaded_node",)
OPERATOR = ("quorum_operator.run",)
"""The modules to load for forks that run the node, and the operator."""
_CONTEXT = get_context("forkserver")
_LOCK = threading.Lock()
"""Starting a process polls all others, and only one caller gets an exit code."""
_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_PR_SET_PDEATHSIG = 1
_READ_ON_IMPORT = (("kubernetes.config.kube_config", "KUBE_CONFIG_DEFAULT_LOCATION", "KUBECONFIG"),)
"""Module, its variable, and the environment variable whose value it reads on import."""


@dataclass(frozen=True, slots=True)
class View:
    """`script` (shell) creates, in a mount namespace of its own, the content of `root`, which becomes the root of the program."""

    script: str
    root: str


@dataclass(frozen=True, slots=True)
class WarmStart:
    """What a fork runs: `python -m module arguments`, with all output appended to the log."""

    module: str
    arguments: Sequence[str]
    log: Path
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    directory: Path | None = None
    network: str | None = None
    """Name of a network namespace."""
    view: View | None = None


def prepare(*modules: str) -> None:
    """Set the modules to load for the first fork. No effect once loading has begun."""
    _CONTEXT.set_forkserver_preload([*modules, __name__])


def load() -> None:
    """Begin loading, in the background. No effect once it has begun."""
    with _LOCK:
        # Up to Python 3.12 the process that forks finds modules by the environment only, and leaves out what it does not find.
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
        try:
            ensure_running()
        finally:
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before


class WarmProcess:
    """What the tests use of `subprocess.Popen`."""

    def __init__(self, start: WarmStart) -> None:
        self._process: ForkServerProcess = _CONTEXT.Process(
            target=_become, args=(start,), daemon=True
        )
        load()
        with _LOCK:
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def sentinel(self) -> int:
        """A descriptor that can be read when the process has ended."""
        return self._process.sentinel

    def poll(self) -> int | None:
        """The exit code, None while it runs; -n after signal n."""
        with _LOCK:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when it has ended. Raises subprocess.TimeoutExpired."""
        connection.wait([self.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """No effect once the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(SIGKILL)


class AwaitedProcess:
    """The part of `asyncio.subprocess.Process` that the harness uses. Created in the loop that awaits it."""

    def __init__(self, process: WarmProcess) -> None:
        self._process = process
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.pid = process.pid
        self.returncode: int | None = None
        self._loop.add_reader(process.sentinel, self._note_end)

    def _note_end(self) -> None:
        self._loop.remove_reader(self._process.sentinel)
        self.returncode = self._process.poll()
        self._ended.set()

    async def wait(self) -> int:
        """The exit code, once it has ended."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: Signals) -> None:
        """No effect once the process has ended."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()


async def started(start: WarmStart) -> AwaitedProcess:
    """The first fork waits until the code is loaded."""
    return AwaitedProcess(await asyncio.to_thread(WarmProcess, start))


def _become(start: WarmStart) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    os.setsid()
    _checked(libc.prctl(_PR_SET_PDEATHSIG, int(SIGKILL)), "prctl")
    log = os.open(start.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    if start.network is not None:
        namespace = os.open(f"/run/netns/{start.network}", os.O_RDONLY)
        _checked(libc.setns(namespace, _CLONE_NEWNET), "setns")
        os.close(namespace)
    if start.view is not None:
        _checked(libc.unshare(_CLONE_NEWNS), "unshare")
        subprocess.run(["sh", "-c", start.view.script], check=True)
        os.chroot(start.view.root)
        os.chdir("/")
    if start.directory is not None:
        os.chdir(start.directory)
    os.environ.clear()
    os.environ.update(start.environment)
    for module, name, variable in _READ_ON_IMPORT:
        if module in sys.modules and variable in start.environment:
            setattr(sys.modules[module], name, start.environment[variable])
    sys.argv = [start.module, *start.arguments]
    runpy.run_module(start.module, run_name="__main__", alter_sys=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
