"""The start of a broker with several log directories: which problem of one of them keeps only it offline, and which refuses the start."""

import json
import shutil
from pathlib import Path

import pytest

from quorum_node.server.broker.data_directories import DataDirectories
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.opening import open_data_directories
from quorum_node.storage.broker.failed_directories import FailedDirectories
from quorum_node.storage.errors import DiskFull, StorageFailure, WrongDirectory
from quorum_node.storage.failure_latch import FAILURE_MARK

pytestmark = [pytest.mark.virtual_time, pytest.mark.requirement("KV3-07")]


class Start:
    """Directories a, b and c of broker 1. The locks of earlier starts are released with `close`."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # A lock lasts until the end of the process, which has several starts here.
        monkeypatch.setattr("quorum_node.server.broker.opening.lock_directory", make)
        self.root = root
        self.ended: list[StorageFailure | DiskFull] = []
        (root / "metadata").mkdir()

    def open(self, names: str = "abc", node_id: int = 1) -> DataDirectories:
        return open_data_directories(
            [self.root / name for name in names],
            self.root / "metadata",
            node_id,
            "cluster",
            BrokerEvents(),
            self.ended.append,
        )

    def identity(self, name: str) -> Path:
        return self.root / name / "meta.properties"


def make(path: Path) -> None:
    path.mkdir(exist_ok=True)


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    return Start(tmp_path, monkeypatch)


async def test_every_directory_gets_an_id_of_its_own_and_keeps_it(start: Start) -> None:
    opened = start.open()
    ids = opened.online_ids
    assert len(set(ids)) == 3
    opened.close(7)
    assert start.open().online_ids == ids


async def test_unreadable_directory_stays_offline_and_the_others_are_used(start: Start) -> None:
    start.open().close(7)
    start.identity("b").write_bytes(b"\xff")
    opened = start.open()
    assert list(opened.offline) == [str(start.root / "b")]
    assert len(opened.online) == 2


async def test_directory_with_logs_and_without_identity_stays_offline(start: Start) -> None:
    start.open().close(7)
    (start.root / "c" / "t-0").mkdir()
    start.identity("c").unlink()
    assert list(start.open().offline) == [str(start.root / "c")]


async def test_start_without_any_usable_directory_is_refused(start: Start) -> None:
    start.open().close(7)
    for name in "abc":
        start.identity(name).write_bytes(b"\xff")
    with pytest.raises(StorageFailure, match="is damaged"):
        start.open()


@pytest.mark.parametrize("place", ["beside the metadata", "in the directory"])
async def test_directory_that_failed_before_is_not_used_until_it_is_emptied(
    start: Start, place: str
) -> None:
    opened = start.open()
    a, b, c = opened.online_ids
    opened.close(7)
    if place == "beside the metadata":
        FailedDirectories(start.root / "metadata").add(b, "EIO")
    else:
        mark = start.root / "b" / FAILURE_MARK
        mark.write_text(json.dumps({"message": "EIO"}))
    for _ in range(2):
        opened = start.open()
        assert opened.online_ids == (a, c)
        assert "failed before: EIO" in opened.offline[str(start.root / "b")]
        opened.close(8)
    shutil.rmtree(start.root / "b")
    opened = start.open()
    assert not opened.offline
    assert b not in opened.online_ids


async def test_copied_and_foreign_directories_refuse_the_start_unchanged(start: Start) -> None:
    start.open().close(7)
    own = start.identity("c").read_bytes()
    start.identity("c").write_bytes(start.identity("a").read_bytes())
    with pytest.raises(WrongDirectory, match=r"c/meta\.properties has the same directory\.id"):
        start.open()
    assert (start.root / "b" / ".kafka_cleanshutdown").exists(), "nothing was opened"
    start.identity("c").write_bytes(own)
    with pytest.raises(WrongDirectory, match=r"belongs to node\.id=1"):
        start.open(node_id=2)


async def test_clean_stop_counts_only_if_every_directory_has_it(start: Start) -> None:
    start.open().close(7)
    opened = start.open()
    assert opened.previous_broker_epoch == 7
    opened.close(8)
    (start.root / "b" / ".kafka_cleanshutdown").unlink()
    opened = start.open()
    assert opened.previous_broker_epoch == -1
    opened.close(9)
    start.identity("b").write_bytes(b"\xff")
    opened = start.open()
    assert opened.previous_broker_epoch == -1, "one is offline"
    opened.close(10)
    shutil.rmtree(start.root / "b")
    opened = start.open()
    assert opened.previous_broker_epoch == -1, "one is new"


async def test_failed_directory_gets_no_marker_of_a_clean_stop(start: Start) -> None:
    opened = start.open()
    opened.online[1].fail(StorageFailure("EIO"))
    opened.close(7)
    markers = [(start.root / name / ".kafka_cleanshutdown").exists() for name in "abc"]
    assert markers == [True, False, True]
