"""A disk that hangs does not keep a node alive that was asked to stop, and the stop does not count it as failed."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from quorum_node.exit_codes import ExitCode
from support.kind_env.waiting import wait_for
from support.local_quorum import LocalQuorum
from support.python_brokers import running_brokers

KILLED = 128 + signal.SIGKILL
"""The exit code that the kubelet shows for a process that it has killed."""

MODULE = "node_on_a_disk_that_hangs"
SOURCE = """
import os, sys, threading
from pathlib import Path
from quorum_node.server.process import broker_process, node_process

node_process.HANG_SECONDS = broker_process.CLOSE_SECONDS = 1.0

def hanging(sync):
    def call(descriptor):
        if Path({trigger!r}).exists():
            Path({hangs!r}).touch()
            threading.Event().wait()
        return sync(descriptor)
    return call

os.fsync, os.fdatasync = hanging(os.fsync), hanging(os.fdatasync)
from quorum_node.server.process.main import main
sys.exit(main())
"""


THREAD_MODULE = "node_with_a_thread_that_hangs"
THREAD_SOURCE = """
import asyncio, sys, threading
from quorum_node.server.process.node_process import NodeProcess

real = NodeProcess.run

async def run(process):
    asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
    return await real(process)

NodeProcess.run = run
from quorum_node.server.process.main import main
sys.exit(main())
"""


def test_node_that_cannot_sync_at_its_stop_ends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger, hangs = tmp_path / "trigger", tmp_path / "hangs"
    text = SOURCE.format(trigger=str(trigger), hangs=str(hangs))
    (tmp_path / f"{MODULE}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with LocalQuorum(tmp_path / "quorum", 1) as quorum, ThreadPoolExecutor(1) as beside:
        (node,) = quorum.nodes.values()
        node.module = MODULE
        quorum.form()
        process = node.process
        assert process is not None
        trigger.touch()
        url = f"{node.admin_url}/v1/configs/topic/t/n"
        lost = beside.submit(quorum.client.put, url, json={"value": "v"})
        wait_for("a sync hangs", hangs.exists, timeout_s=30)
        node.signal(signal.SIGTERM)
        assert process.wait(30) == KILLED
        code = None if lost.exception() is not None else lost.result().status_code
        assert code != 200, "a record was acknowledged that is not on the disk"
        assert "the disk hangs: at the stop its logs were not synced within 1 s" in node.log_text
        assert node.termination_message == "", "a reason would be read as a failed disk"
        assert not list(tmp_path.rglob("*failure*")), "the disk may only be slow"


def test_broker_that_cannot_sync_its_logs_at_its_stop_ends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger, hangs = tmp_path / "trigger", tmp_path / "hangs"
    text = SOURCE.format(trigger=str(trigger), hangs=str(hangs))
    (tmp_path / f"{MODULE}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with running_brokers(tmp_path / "quorum", 1) as brokers:
        node = brokers.nodes[201]
        brokers.create_topic_at(201, "t", [201], [201])
        assert node.terminate() == ExitCode.OK
        node.module = MODULE
        brokers.start()
        process = node.process
        assert process is not None
        trigger.touch()
        node.signal(signal.SIGTERM)
        assert process.wait(30) == KILLED
        assert "its logs were not synced within 1 s" in node.log_text
        assert not list(tmp_path.rglob("*fail*")), "the disk may only be slow"


def test_node_whose_thread_hangs_in_a_read_of_a_file_stops_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop awaits its threads when it is closed."""
    (tmp_path / f"{THREAD_MODULE}.py").write_text(THREAD_SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    with LocalQuorum(tmp_path / "quorum", 1) as quorum:
        (node,) = quorum.nodes.values()
        node.module = THREAD_MODULE
        quorum.form()
        process = node.process
        assert process is not None
        node.signal(signal.SIGTERM)
        assert process.wait(30) == ExitCode.OK
