"""A bug ends the process: which exceptions count as one, and where they are caught.

An exception from the core, the storage or the controller interrupts a step: its remaining outputs (persist, flush, answers) are lost,
while the state already assumes them. Continuing could break guarantees. So the process ends with exit code 70, whether the exception was
raised in the Kafka port, the admin API, a timer or a thread. Owns that decision. Must not know how a process ends (`termination.py`).
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
"""Modules in which an interrupted step leaves inconsistent state. Modules above them only translate."""
_SOCKETS = ("transport", "protocol", "socket", "server_socket")
"""Keys by which the loop's exception context names a connection. A refused or broken connection is not a bug."""


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
        # A cancelled connect leaves its name look-up running; its failure is reported only by the loop.
        unnamed = isinstance(error, socket.gaierror)
        broken = unnamed or (isinstance(error, OSError) and any(key in context for key in _SOCKETS))
        if error is None or (broken and not is_half_a_step(error)):
            structlog.get_logger("quorum_node").warning(str(context.get("message")))
            return
        on_bug(error)

    loop.set_exception_handler(handle)


def watch_threads(on_bug: OnBug) -> None:
    """An exception that ends a thread counts as a bug: its work is unfinished, and no other part would notice."""

    def handle(failed: threading.ExceptHookArgs) -> None:
        if failed.exc_value is not None:
            on_bug(failed.exc_value)

    threading.excepthook = handle


def watch_task(task: "asyncio.Task[Any]") -> None:
    """Report the exception of a task that is not awaited when the task ends, not when it is garbage collected."""

    def ended(done: "asyncio.Task[Any]") -> None:
        if not done.cancelled():
            done.result()

    task.add_done_callback(ended)
