"""The end of the process: what is latched, and where."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.exit_codes import ExitCode, TerminationReason
from quorum_node.server.ending import termination as termination_module
from quorum_node.server.ending.termination import Termination, reason_of
from quorum_node.server.process.main import configure_logging
from quorum_node.storage.errors import OutOfResources
from quorum_node.storage.failure_latch import FAILURE_MARK, FailureLatch
from quorum_node.storage.meta_properties import MetaProperties, write_meta_properties


@pytest.fixture
def termination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Termination:
    monkeypatch.setattr(termination_module, "guard_exit", lambda code: None)
    data = tmp_path / "data"
    data.mkdir()
    write_meta_properties(data, MetaProperties(1, UUID(int=1)))
    latch = FailureLatch(tmp_path / "failed", data)
    return Termination(tmp_path / "message", latch, node_id=1)


@pytest.mark.requirement("K595-06")
def test_failed_disk_is_latched_beside_the_data_and_on_it(
    termination: Termination, tmp_path: Path
) -> None:
    assert termination.record(TerminationReason.STORAGE_FAILED, "EIO") == ExitCode.STORAGE_FAILED
    written = [tmp_path / "message", tmp_path / "failed", tmp_path / "data" / FAILURE_MARK]
    for path in written:
        assert json.loads(path.read_text())["message"] == "EIO"
    written[1].unlink()
    assert termination.latch.read() == "EIO"
    written[2].unlink()
    assert termination.latch.read() is None


def test_latch_that_cannot_be_looked_up_keeps_neither_the_mark_nor_the_message_away(
    termination: Termination, tmp_path: Path
) -> None:
    """The file system beside the data may fail as well; here its name is too long for any."""
    termination.latch = FailureLatch(tmp_path / ("x" * 300), tmp_path / "data")
    assert termination.record(TerminationReason.STORAGE_FAILED, "EIO") == ExitCode.STORAGE_FAILED
    for path in (tmp_path / "message", tmp_path / "data" / FAILURE_MARK):
        assert json.loads(path.read_text())["message"] == "EIO"


@pytest.mark.requirement("K595-06", "OP-04")
def test_full_disk_is_not_latched(termination: Termination, tmp_path: Path) -> None:
    assert termination.record(TerminationReason.DISK_FULL, "ENOSPC") == ExitCode.DISK_FULL
    assert json.loads((tmp_path / "message").read_text())["reason"] == "DiskFull"
    assert termination.latch.read() is None


def test_lack_of_descriptors_or_memory_is_not_latched(
    termination: Termination, tmp_path: Path
) -> None:
    """It says nothing about the disk: the next process is the same replica."""
    reason = reason_of(OutOfResources("EMFILE"))
    assert termination.record(reason, "EMFILE") == ExitCode.OUT_OF_RESOURCES
    assert json.loads((tmp_path / "message").read_text())["reason"] == "OutOfResources"
    assert termination.latch.read() is None


@pytest.mark.parametrize("reason", TerminationReason)
def test_termination_message_and_log_name_a_remedy(
    reason: TerminationReason,
    termination: Termination,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("info")
    termination.record(reason, "why")
    (line,) = capsys.readouterr().out.splitlines()
    for document in (json.loads((tmp_path / "message").read_text()), json.loads(line)):
        assert (document["message"], document["reason"]) == ("why", reason.value)
        assert document["advice"] == reason.advice


def test_exit_codes_are_the_documented_and_previous_ones() -> None:
    """An operator of another version, restart policies and people go by the numbers."""
    assert {code.name: code.value for code in ExitCode} == {
        "OK": 0,
        "IDENTITY_MISMATCH": 65,
        "INTERNAL_ERROR": 70,
        "OUT_OF_RESOURCES": 71,
        "DISK_FULL": 73,
        "STORAGE_FAILED": 74,
        "NO_PERMISSION": 77,
        "BAD_CONFIGURATION": 78,
    }
    assert {reason.value: reason.exit_code.value for reason in TerminationReason} == {
        "IdentityMismatch": 65,
        "InternalError": 70,
        "OutOfResources": 71,
        "DiskFull": 73,
        "StorageFailed": 74,
        "NoPermission": 77,
        "BadConfiguration": 78,
    }


@pytest.mark.parametrize("node_id", ["9" * 5000, "-1", "\u00b2", "", "one"])
def test_unchecked_properties_that_are_invalid_are_ignored(node_id: str) -> None:
    termination = Termination()
    termination.adopt({"node.id": node_id, "termination.message.file": "/a\0b"})
    assert (termination.node_id, termination.message_file) == (None, None)
    termination.adopt({"node.id": "17", "termination.message.file": "/a"})
    assert (termination.node_id, termination.message_file) == (17, Path("/a"))
