"""Snapshots with bit rot on the disk of one replica: set aside, and written again; all else continues."""

import asyncio
from pathlib import Path

import pytest

from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.disk import scrubber as scrubber_module
from support.single_replica import PARTITION, starts, until


async def test_corrupted_snapshot_is_set_aside_before_it_is_served(tmp_path: Path) -> None:
    async with starts(tmp_path) as start:
        node = start()
        await node.write(30)
        made = await node.snapshot()
        assert isinstance(made, SnapshotId)
        await node.write(3)
        file = node.path / PARTITION / made.file_name
        content = bytearray(file.read_bytes())
        content[-20] ^= 1
        file.write_bytes(content)
        node.host.snapshotter.verify_in_background(made)
        await until(lambda: made not in node.host.snapshots.ids())
        await until(lambda: node.host.snapshots.ids())  # a new one took its place
        assert node.counted("snapshots_damaged") == 1
        assert not node.halts


@pytest.mark.parametrize("gone", [False, True])
async def test_older_corrupted_snapshot_blocks_neither_the_next_one_nor_the_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    """Retention reads the headers of all snapshots, damaged or not."""
    async with starts(tmp_path) as start:
        monkeypatch.setattr(scrubber_module, "scrub", lambda *segments: None)
        first = start()
        await first.write(30)
        older = await first.snapshot()
        assert isinstance(older, SnapshotId)
        await first.write(3)
        kept = await first.snapshot()
        first.close()
        file = first.path / PARTITION / older.file_name
        node = start()
        if gone:
            file.unlink()
        else:
            content = bytearray(file.read_bytes())
            content[16] ^= 1  # the magic of its first batch
            file.write_bytes(content)
        await node.write(3)
        newest = await asyncio.wait_for(node.snapshot(), 20)
        assert isinstance(newest, SnapshotId)
        assert node.host.snapshots.ids() == (kept, newest)
        assert file.with_name(file.name + ".corrupt").exists() != gone
        assert node.counted("snapshots_damaged") == 1
        assert not node.halts
