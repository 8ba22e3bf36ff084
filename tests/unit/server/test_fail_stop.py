"""Which exceptions end the process, and that every observer of exceptions reports them."""

import asyncio
import gc
import socket
import threading
from collections.abc import Callable
from importlib.util import find_spec

import pytest
import uvloop

from quorum_node.raft.quorum import majority_value
from quorum_node.raft.voters import VoterSet
from quorum_node.records.identity import parse_uuid
from quorum_node.server.ending import fail_stop
from quorum_node.server.ending.fail_stop import (
    is_half_a_step,
    watch_loop,
    watch_task,
    watch_threads,
)


def caught(act: Callable[[], object]) -> BaseException:
    try:
        act()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_only_exceptions_in_stateful_modules_count_as_partial_state_changes() -> None:
    assert is_half_a_step(caught(lambda: majority_value(VoterSet(()), len)))  # type: ignore[arg-type]
    assert not is_half_a_step(caught(lambda: parse_uuid("no UUID")))
    assert not is_half_a_step(caught(lambda: 1 / 0))


async def test_loop_reports_failed_callbacks_and_tasks_and_no_broken_connections() -> None:
    reported: list[BaseException] = []

    def fail() -> None:
        raise OSError("in a callback")

    async def fail_later() -> None:
        raise KeyError("in a task")

    loop = asyncio.get_running_loop()
    watch_loop(loop, reported.append)
    loop.call_soon(fail)
    kept = loop.create_task(fail_later())
    watch_task(kept)
    for _ in range(5):
        await asyncio.sleep(0)
    loop.call_exception_handler(
        {"message": "peer", "exception": ConnectionResetError(), "transport": object()}
    )
    assert kept.done()
    assert [type(each) for each in reported] == [OSError, KeyError]


def test_lookup_failure_after_a_cancelled_connect_is_no_bug() -> None:
    """The peer's request timed out first; then the name service reports an unknown name."""
    reported: list[BaseException] = []
    received: list[object] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        watch_loop(loop, reported.append)

        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
            received.append(context.get("exception"))
            assert watched is not None
            watched(loop, context)

        watched = loop.get_exception_handler()
        loop.set_exception_handler(handle)
        connect = loop.create_task(loop.create_connection(asyncio.Protocol, "peer.invalid", 9093))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        connect.cancel()
        del connect
        async with asyncio.timeout(20):
            while not received:
                gc.collect()
                await asyncio.sleep(0.01)

    uvloop.run(run())
    assert isinstance(received[0], socket.gaierror)
    assert reported == []


def test_failed_thread_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[BaseException] = []
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    watch_threads(reported.append)

    def fail() -> None:
        raise ZeroDivisionError

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert [type(each) for each in reported] == [ZeroDivisionError]


def test_listed_stateful_modules_exist() -> None:
    """A moved module would be treated as a translator, and a partial state change there as bad input."""
    assert [name for name in fail_stop._STATEFUL if find_spec(name) is None] == []
