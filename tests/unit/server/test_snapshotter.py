"""One replica in this process, with its real log and disk: snapshots while writing, restarts, retention."""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from quorum_node.image.configs import ConfigKey
from quorum_node.image.resource_types import TOPIC
from quorum_node.raft.outputs import HaltReason
from quorum_node.records.metadata import UnknownMetadata, encode_metadata
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.admin.views import state_document
from quorum_node.server.disk import scrubber as scrubber_module
from quorum_node.server.partition import applier as applier_module
from quorum_node.server.partition.port import AppendOutcome
from quorum_node.server.snapshots import snapshotter as snapshotter_module
from quorum_node.storage.errors import DiskFull
from quorum_node.storage.snapshot_writer import SnapshotWriter
from support.single_replica import PARTITION, Running, starts, until


@pytest.mark.requirement("K853-08")
async def test_snapshots_are_written_by_log_size_while_writes_continue(tmp_path: Path) -> None:
    async with starts(tmp_path) as start:
        node = start(metadata_log_max_record_bytes_between_snapshots=8000)
        await node.write(300)
        await until(lambda: node.counted("snapshots_written") >= 2)
        ids = node.host.snapshots.ids()
        assert len(ids) >= 2
        assert node.host.describe().log_start_offset == 0
        for each in ids:
            bounds = node.host.snapshots.verify(each)
            assert bounds.kraft_version == 1
            assert bounds.voters is not None
            assert [voter.key.id for voter in bounds.voters.voters] == [1]
        assert not node.halts


@pytest.mark.requirement("K853-08")
async def test_restart_loads_the_snapshot_and_the_following_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with starts(tmp_path) as start:
        node = start()
        await node.write(60)
        made = await node.snapshot()
        assert isinstance(made, SnapshotId)
        last = await node.write(30)
        await until(lambda: node.host.applier.committed.end_offset >= last.end_offset)
        wanted = node.values()
        again = start()
        replayed: list[int] = []
        monkeypatch.setattr(again.host, "applied", replayed.append)
        await until(lambda: again.host.applier.committed.end_offset >= last.end_offset)
        assert again.values() == wanted
        assert sum(replayed) < 30 * 250, "the log before the snapshot was replayed too"
        assert again.host.describe().cluster_id == "c"
        assert len(again.host.describe().voters) == 1
        await again.write(1)


@pytest.mark.requirement("K853-08")
async def test_retention_deletes_the_prefix_and_older_snapshots_but_keeps_two(
    tmp_path: Path,
) -> None:
    async with starts(tmp_path) as start:
        settings = {
            "metadata_log_max_record_bytes_between_snapshots": 30_000,
            "metadata_max_retention_bytes": 100_000,
        }
        node = start(**settings)
        last = await node.write(900)
        await until(lambda: node.host.log.start_offset > 0)
        ids = node.host.snapshots.ids()
        assert len(ids) >= 2
        assert node.host.log.start == ids[0]
        assert node.host.describe().log_start_offset == ids[0].end_offset
        assert node.host.log.size_bytes_from(0) < 200_000
        first_file = min(int(p.stem) for p in (node.path / PARTITION).glob("*.log"))
        assert 0 < first_file <= ids[0].end_offset
        wanted = node.values()
        again = start(**settings)
        await until(lambda: again.host.applier.committed.end_offset >= last.end_offset)
        assert again.values() == wanted
        assert again.host.describe().voters_position.offset >= 0
        await again.write(1)
        assert not again.halts


@pytest.mark.requirement("K595-30")
async def test_state_is_not_consistent_until_the_snapshot_before_the_log_is_loaded(
    tmp_path: Path,
) -> None:
    """Behind a deleted prefix there is no state of the records before, as long as the snapshot is on its way."""
    async with starts(tmp_path) as start:
        settings = {
            "metadata_log_max_record_bytes_between_snapshots": 30_000,
            "metadata_max_retention_bytes": 100_000,
        }
        node = start(**settings)
        assert reported_consistent(node), "an empty log has an empty state"
        last = await node.write(900)
        await until(lambda: node.host.log.start_offset > 0)
        assert reported_consistent(node)
        again = start(**settings)
        assert again.host.log.start_offset > 0
        seen: list[tuple[bool, int]] = []

        def loaded() -> bool:
            seen.append((reported_consistent(again), again.host.applier.committed.end_offset))
            return seen[-1][1] >= last.end_offset

        await until(loaded)
        assert seen[0] == (False, 0)
        assert seen[-1][0]
        start_offset = again.host.log.start_offset
        assert all(says == (applied >= start_offset) for says, applied in seen)


def reported_consistent(node: Running) -> bool:
    """The state in the node's description."""
    description, applied = node.host.describe(), node.host.applier.committed.end_offset
    return state_document(description, applied, node.host.now().core_ms).consistent


@pytest.mark.requirement("K853-08", "K631-06")
async def test_damaged_newest_snapshot_loses_no_data(tmp_path: Path) -> None:
    async with starts(tmp_path) as start:
        settings = {"metadata_max_retention_bytes": 20_000}
        node = start(**settings)
        for _ in range(3):
            await node.write(150)
            assert isinstance(await node.snapshot(), SnapshotId)
        older, newest = node.host.snapshots.ids()[-2:]
        assert node.host.log.start == older
        last = await node.write(5)
        await until(lambda: node.host.applier.committed.end_offset >= last.end_offset)
        wanted = node.values()
        node.close()
        file = node.path / PARTITION / newest.file_name
        content = bytearray(file.read_bytes())
        content[len(content) // 3] ^= 8
        file.write_bytes(content)
        again = start(**settings)
        await until(lambda: again.host.applier.committed.end_offset >= last.end_offset)
        assert again.values() == wanted
        assert file.with_name(file.name + ".corrupt").exists()
        # There is one copy of what was deleted now: the next snapshot comes at once.
        await until(lambda: len(again.host.snapshots.ids()) == 2)


async def test_full_disk_is_no_failed_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with starts(tmp_path) as start:
        node = start()
        await node.write(30)
        with monkeypatch.context() as patch:

            def full(writer: SnapshotWriter, data: bytes) -> None:
                raise DiskFull("cannot write: ENOSPC (No space left on device)")

            patch.setattr(SnapshotWriter, "append", full)
            outcome = await node.snapshot()
        assert "ENOSPC" in str(outcome)
        assert node.metrics.partition(0).labelled["snapshot_failures"] == {"disk_full": 1}
        assert not node.halts
        assert not list((node.path / PARTITION).glob("*.writing"))
        await node.write(5)
        assert isinstance(await node.snapshot(), SnapshotId)


@pytest.mark.requirement("K595-06")
@pytest.mark.parametrize("what", ["file", "directory"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT], ids=errno.errorcode.get)
async def test_snapshot_sync_that_fails_for_lack_of_space_stops_the_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, number: int
) -> None:
    """It is no failed disk; but no sync that failed is gone over."""
    async with starts(tmp_path) as start:
        node = start()
        await node.write(5)
        original = os.fsync

        def full(fd: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{fd}"))
            if path.name.endswith(".writing") if what == "file" else path.is_dir():
                raise OSError(number, os.strerror(number))
            original(fd)

        monkeypatch.setattr(os, "fsync", full)
        assert errno.errorcode[number] in str(await node.snapshot())
        await until(lambda: node.halts)
        assert node.halts[0].reason is HaltReason.DISK_FULL


async def test_snapshot_that_failed_for_lack_of_space_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself, after a pause, and although nothing more is written."""
    monkeypatch.setattr(snapshotter_module, "_BACKOFF_SECONDS", 0.3)
    async with starts(tmp_path) as start:
        node = start(metadata_log_max_record_bytes_between_snapshots=3000)
        with monkeypatch.context() as patch:

            def full(writer: SnapshotWriter, data: bytes) -> None:
                raise DiskFull("cannot write: ENOSPC (No space left on device)")

            patch.setattr(SnapshotWriter, "append", full)
            await node.write(30)
            await until(lambda: node.metrics.partition(0).labelled["snapshot_failures"])
        await until(lambda: node.counted("snapshots_written"))


async def test_failed_disk_stops_the_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with starts(tmp_path) as start:
        node = start()
        await node.write(5)
        original = os.rename

        def broken(source: str, target: str) -> None:
            if str(source).endswith(".writing"):
                raise OSError(errno.EIO, "Input/output error")
            original(source, target)

        monkeypatch.setattr(os, "rename", broken)
        assert "EIO" in str(await node.snapshot())
        await until(lambda: node.halts)
        assert node.halts[0].reason is HaltReason.STORAGE_FAILED


async def test_no_snapshot_below_the_disk_reserve(tmp_path: Path) -> None:
    async with starts(tmp_path) as start:
        node = start()
        await node.write(5)
        node.reserve.free_bytes = 1000
        assert "enlarge the volume" in str(await node.snapshot())


async def test_log_with_unknown_records_is_kept_completely(tmp_path: Path) -> None:
    async with starts(tmp_path) as start:
        node = start(metadata_log_max_record_bytes_between_snapshots=1000)
        await node.write(1)
        future: asyncio.Future[AppendOutcome] = asyncio.get_running_loop().create_future()
        unknown = encode_metadata(UnknownMetadata(99, 0, b"?"))
        node.host.append((unknown,), future.set_result)
        await asyncio.wait_for(future, 20)
        last = await node.write(20)
        await until(lambda: node.host.applier.committed.end_offset >= last.end_offset)
        assert "type 99" in str(await node.snapshot())
        assert node.host.snapshots.ids() == ()
        assert not node.halts


async def test_values_written_during_a_snapshot_are_in_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with starts(tmp_path) as start:
        node = start()
        await node.write(60)
        before = await node.write(1)
        began, may_end = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()
        original = SnapshotWriter.append

        def held_up(writer: SnapshotWriter, data: bytes) -> None:
            loop.call_soon_threadsafe(began.set)
            assert may_end.wait(20)
            original(writer, data)

        monkeypatch.setattr(SnapshotWriter, "append", held_up)
        requested = asyncio.ensure_future(node.snapshot())
        await began.wait()
        last = await node.write(20)
        may_end.set()
        made = await requested
        assert isinstance(made, SnapshotId)
        assert before.end_offset <= made.end_offset < last.end_offset
        await until(lambda: node.host.applier.committed.end_offset >= last.end_offset)
        newest = node.values()
        assert newest[f"k{(node.number - 1) % 50}"].startswith(f"{node.number - 1}x")
        assert node.host.applier.image.configs.get(ConfigKey(TOPIC, "t", "k0")) is not None


async def test_snapshot_id_uses_the_epoch_of_the_log_and_not_a_corrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start takes sealed segments unread, and no checksum covers the epoch of a batch."""
    async with starts(tmp_path) as start:
        node = start()
        last = await node.write(300)
        monkeypatch.setattr(
            applier_module, "_PIECE_BYTES", 1
        )  # a snapshot may begin behind any batch
        monkeypatch.setattr(scrubber_module, "scrub", lambda *segments: None)  # it is not there yet
        sealed, *_, newest = sorted((node.path / PARTITION).glob("*.log"))
        assert sealed != newest
        node.close()
        content = bytearray(sealed.read_bytes())
        positions, position = [], 0
        while position < len(content):
            positions.append(position)
            position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
        for position in positions:
            if not content[position + 22] & 0x20:  # no control batch
                assert content[position + 15] == 1
                content[position + 15] ^= 8
        sealed.write_bytes(content)
        again = start(metadata_log_max_record_bytes_between_snapshots=4000)
        await until(lambda: again.host.snapshots.ids() or again.halts)
        made = again.host.snapshots.ids()[0]
        assert made.end_offset < int(newest.stem) < last.end_offset
        assert made.epoch == 1
        await until(lambda: again.counted("snapshots_written"))
