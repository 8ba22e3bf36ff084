"""A bug ends the process, whoever asked: what counts as one, and who is told.

An exception out of the core, the storage or the controller leaves a step half done: what was put out behind it
(persist, flush, answers) is lost, while the state says that it happened. Going on would make promises void. So the
process ends with exit code 70, be it the Kafka port, the admin API, a timer or a thread that ran into it. Owns
that decision. Must not know how a process ends (`termination.py`).
"""

import asyncio
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import structlog

OnBug = Callable[[BaseException], None]

_STATEFUL = (
    "quorum_node.raft",
    "quorum_node.storage",
    "quorum_node.controller",
    "quorum_node.broker",
    "quorum_node.image",
    "quorum_node.server.partition.driver",
    "quorum_node.server.partition.replica_host",
    "quorum_node.server.controller",
    "quorum_node.server.broker.hosted_replica",
    "quorum_node.server.broker.assigned_replicas",
    "quorum_node.server.partition.appends",
    "quorum_node.server.partition.applier",
    "quorum_node.server.partition.reads",
    "quorum_node.server.snapshots.snapshotter",
)
"""Modules of which a step must not end half way. What lies above them only translates."""
_SOCKETS = ("transport", "protocol", "socket", "server_socket")
"""Keys by which a loop tells of a connection. A refused or broken one is no bug."""


def is_half_a_step(error: BaseException) -> bool:
    """Whether the exception passed through code that keeps state."""
    frame: TracebackType | None = error.__traceback__
    while frame is not None:
        name = frame.tb_frame.f_globals.get("__name__", "")
        if any(name == each or name.startswith(f"{each}.") for each in _STATEFUL):
            return True
        frame = frame.tb_next
    return False


def watch_loop(loop: asyncio.AbstractEventLoop, on_bug: OnBug) -> None:
    """An exception in a callback or a task of this loop is a bug, unless a connection broke."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        # A connect that was given up leaves its lookup behind: that no name was found is then told by nobody but the loop.
        unnamed = isinstance(error, socket.gaierror)
        broken = unnamed or (isinstance(error, OSError) and any(key in context for key in _SOCKETS))
        if error is None or (broken and not is_half_a_step(error)):
            structlog.get_logger("quorum_node").warning(str(context.get("message")))
            return
        on_bug(error)

    loop.set_exception_handler(handle)


def watch_threads(on_bug: OnBug) -> None:
    """A thread that ends with an exception has left its work undone, and nobody else would notice."""

    def handle(failed: threading.ExceptHookArgs) -> None:
        if failed.exc_value is not None:
            on_bug(failed.exc_value)

    threading.excepthook = handle


def watch_task(task: "asyncio.Task[Any]") -> None:
    """A task that nobody awaits: its exception reaches the loop when it ends, not when it is collected."""

    def ended(done: "asyncio.Task[Any]") -> None:
        if not done.cancelled():
            done.result()

    task.add_done_callback(ended)
