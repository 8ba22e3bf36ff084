"""A process without descriptors or memory: it stops as after a failed disk, but the disk is not marked as failed."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.batches import Record, encode_batch
from quorum_node.storage.atomic_file import read_file, replace_file
from quorum_node.storage.broker.fail_stop import FailStop
from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.errors import (
    DiskFull,
    OutOfResources,
    StorageFailure,
    SyncFailed,
    classify,
)
from quorum_node.storage.failure_latch import FAILURE_MARK, FailureLatch
from quorum_node.storage.file_system import PosixFileSystem
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.quorum_state import QuorumStateFile

LACKING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def batch(offset: int) -> bytes:
    return encode_batch(
        base_offset=offset, leader_epoch=1, timestamp_ms=1, records=[Record(None, b"v" * 20)]
    )


def named(number: int) -> str:
    return errno.errorcode[number]


class FailingOpens(PosixFileSystem):
    error: int | None = None

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))
        return super().open(path, flags, mode)


@pytest.mark.parametrize("number", LACKING, ids=named)
def test_lack_of_resources_is_final_and_no_failed_disk(number: int) -> None:
    found = classify(OSError(number, os.strerror(number)), "open x")
    assert type(found) is OutOfResources
    assert str(found) == f"cannot open x: {named(number)} ({os.strerror(number)})"


@pytest.mark.parametrize("number", LACKING, ids=named)
def test_a_failed_sync_is_a_failed_disk_whatever_its_number(number: int) -> None:
    assert type(classify(SyncFailed(number, os.strerror(number)), "sync x")) is StorageFailure


@pytest.mark.parametrize("number", LACKING, ids=named)
def test_every_small_file_distinguishes_it(tmp_path: Path, number: int) -> None:
    files = FailingOpens()
    files.error = number
    acts: tuple[Callable[[], object], ...] = (
        lambda: replace_file(tmp_path / "a", b"", files),
        lambda: read_file(tmp_path / "a", files),
        lambda: QuorumStateFile(tmp_path, UUID(int=1), files=files).save(QuorumState()),
    )
    for act in acts:
        with pytest.raises(OutOfResources):
            act()


def test_the_log_stays_failed_with_the_same_kind_of_error(tmp_path: Path) -> None:
    files = FailingOpens()
    log = SegmentedLog(tmp_path, segment_bytes=1, files=files)
    log.append(batch(0), 0, 1, 1)
    files.error = errno.EMFILE
    for _ in range(2):
        with pytest.raises(OutOfResources):
            log.append(batch(1), 1, 2, 1)
        files.error = None  # a later attempt must not succeed
    with pytest.raises(OutOfResources):
        log.flush()


def test_a_log_directory_of_a_broker_fails_with_it(tmp_path: Path) -> None:
    files = FailingOpens()
    directory = LogDirectory(tmp_path, node_id=1, cluster_id="c", files=files)
    told: list[StorageFailure | DiskFull] = []
    directory.watch(told.append)
    files.error = errno.EMFILE
    for _ in range(2):
        with pytest.raises(OutOfResources):
            directory.open_log(("t", 0), UUID(int=1), LogSettings())
        files.error = None
    assert [type(each) for each in told] == [OutOfResources]


@pytest.mark.parametrize(
    ("second", "kind"), [(errno.ENOMEM, OutOfResources), (errno.EIO, StorageFailure)]
)
def test_a_full_disk_that_cannot_be_undone_is_classified_by_the_second_error(
    tmp_path: Path, second: int, kind: type[StorageFailure]
) -> None:
    stop = FailStop(tmp_path, lambda failure: None)
    assert type(stop.fail_again(DiskFull("full"), OSError(second, "x"))) is kind
    with pytest.raises(kind) as caught:
        stop.check()
    assert type(caught.value) is kind


def test_a_latch_that_cannot_be_read_for_lack_of_descriptors_is_no_latch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that took it for a mark would write the mark."""
    mark = tmp_path / FAILURE_MARK
    mark.write_text("{}")
    latch = FailureLatch(None, tmp_path)

    def fails(number: int) -> Callable[..., str]:
        def read(path: Path, **_: object) -> str:
            raise OSError(number, os.strerror(number))

        return read

    monkeypatch.setattr(Path, "read_text", fails(errno.EIO))
    assert latch.read() is not None
    monkeypatch.setattr(Path, "read_text", fails(errno.ENFILE))
    with pytest.raises(OutOfResources, match="ENFILE"):
        latch.read()
