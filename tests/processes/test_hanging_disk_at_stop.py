"""A disk that hangs does not keep a node alive that was asked to stop."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from quorum_node.exit_codes import ExitCode
from support.kind_env.waiting import wait_for
from support.local_quorum import LocalQuorum

MODULE = "node_on_a_disk_that_hangs"
SOURCE = """
import os, sys, threading
from pathlib import Path
from quorum_node.server.process import node_process

node_process.HANG_SECONDS = 1.0

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
        assert process.wait(30) == ExitCode.STORAGE_FAILED
        code = None if lost.exception() is not None else lost.result().status_code
        assert code != 200, "a record was acknowledged that is not on the disk"
        assert "the disk hangs" in node.termination_message
        assert not list(tmp_path.rglob("*failure*")), "the disk may only be slow"
