"""An exception out of the core or the storage ends the process with the exit code of a bug, in every thread and task.

Most are reported more than once: by the driver for the step, by the loop for the callback, and by the admin API for the request. A case
fails when no report is made; exceptions of threads and of the loop's own callbacks have only one reporter.
"""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from quorum_node.exit_codes import ExitCode
from support.local_quorum import LocalQuorum

pytestmark = [pytest.mark.requirement("K595-06")]

MODULE = "node_with_a_bug_in_it"
SOURCE = """
import sys, threading
from pathlib import Path
from quorum_node.raft import describe, messages, replica, timers
from quorum_node.schema.schema import MalformedMessage
from quorum_node.server.partition.applier import Applier
from quorum_node.server.snapshots.snapshotter import Snapshotter
from quorum_node.storage.log import SegmentedLog

def broken(real, thread=None):
    def call(*arguments, **more):
        here = thread in (None, threading.current_thread().name)
        if here and Path({trigger!r}).exists():
            raise {error}("a bug")
        return real(*arguments, **more)
    return call

{change}
from quorum_node.server.process.main import main
sys.exit(main())
"""


def _remove(quorum: LocalQuorum, url: str) -> None:
    quorum.client.delete(f"{url}/v1/voters/5/AAAAAAAAAAAAAAAAAAAAAQ")


def _write(quorum: LocalQuorum, url: str) -> None:
    quorum.client.put(f"{url}/v1/configs/topic/t/n", json={"value": "v"})


def _describe(quorum: LocalQuorum, url: str) -> None:
    quorum.client.get(f"{url}/v1/quorum")


def _snapshot(quorum: LocalQuorum, url: str) -> None:
    quorum.client.post(f"{url}/v1/snapshot")


def _nothing(quorum: LocalQuorum, url: str) -> None: ...


_REMOVE = "replica._REQUESTS[messages.RemoveVoterRequest]"
CASES: dict[str, tuple[str, str, Callable[[LocalQuorum, str], None]]] = {
    "a request of the admin API": (f"{_REMOVE} = broken({_REMOVE})", "AssertionError", _remove),
    "an OSError that no code expects": (
        "SegmentedLog.append = broken(SegmentedLog.append)",
        "OSError",
        _write,
    ),
    "what passes for a malformed message": (
        "SegmentedLog.append = broken(SegmentedLog.append)",
        "MalformedMessage",
        _write,
    ),
    "a description": ("describe.describe = broken(describe.describe)", "KeyError", _describe),
    "the thread that flushes": (
        (
            "SegmentedLog.begin_sync = lambda log, elsewhere: False\n"
            "SegmentedLog.flush = broken(SegmentedLog.flush, 'log-flusher')"
        ),
        "ValueError",
        _write,
    ),
    "what a sync proved": (
        "SegmentedLog.end_sync = broken(SegmentedLog.end_sync)",
        "TypeError",
        _write,
    ),
    "replay, which condemns no disk": (
        "Applier._take = broken(Applier._take)",
        "LookupError",
        _write,
    ),
    "a snapshot that was asked for": (
        "Snapshotter._begin = broken(Snapshotter._begin)",
        "RuntimeError",
        _snapshot,
    ),
    "a timer": ("timers.expire = broken(timers.expire)", "IndexError", _nothing),
}


@pytest.mark.parametrize("case", CASES)
def test_process_exits_with_the_exit_code_for_bugs(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, error, act = CASES[case]
    trigger = tmp_path / "trigger"
    text = SOURCE.format(error=error, trigger=str(trigger), change=change)
    (tmp_path / f"{MODULE}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with LocalQuorum(tmp_path / "quorum", 2) as quorum:
        node = quorum.nodes[1]
        node.module = MODULE
        quorum.form()
        process = node.process
        assert process is not None
        trigger.touch()
        try:
            act(quorum, node.admin_url)
        except httpx.HTTPError:
            pass  # it did not live to answer
        assert process.wait(60) == ExitCode.INTERNAL_ERROR
        assert "an internal error ended the node" in node.log_text
        assert (
            "INTERNAL_ERROR" in node.termination_message
            or "internal error" in node.termination_message
        )
        assert not list(tmp_path.rglob("*failure*")), "a bug was reported as a disk failure"
