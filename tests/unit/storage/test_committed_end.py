"""The committed end in `synced-end`: stored with the synced end, never beyond it, and ignored when damaged."""

from pathlib import Path

import pytest

from quorum_node.storage.synced_end import FILE_NAME, SyncedEnd, read_synced_end

pytestmark = pytest.mark.usefixtures("no_sync")


def committed_in(directory: Path) -> int:
    found = read_synced_end(directory)
    assert found is not None
    return found.committed_end


def synced_in(directory: Path) -> tuple[int, int, bool]:
    found = read_synced_end(directory)
    assert found is not None
    return found.end_offset, found.epoch, found.failed


def test_committed_end_is_stored_when_the_file_is_synced(tmp_path: Path) -> None:
    file = SyncedEnd(tmp_path, 3, 1)
    assert committed_in(tmp_path) == 0
    file.raise_to(9, 1, file.generation)
    file.settle(7)
    assert committed_in(tmp_path) == 7
    file.settle(9)
    assert committed_in(tmp_path) == 9, "also if only the committed end has grown"
    file.raise_to(12, 2, file.generation)
    file.settle(15)
    assert committed_in(tmp_path) == 12, "never beyond the synced end"
    file.settle(4)
    assert committed_in(tmp_path) == 12, "it does not decrease"
    assert synced_in(tmp_path) == (12, 2, False)
    file.close()
    again = SyncedEnd(tmp_path, 12, 2, read_synced_end(tmp_path))
    assert committed_in(tmp_path) == 12
    again.lower_to(10, 2)
    again.cut_is_done()
    assert committed_in(tmp_path) == 10
    again.close()


def test_damaged_committed_end_is_ignored(tmp_path: Path) -> None:
    file = SyncedEnd(tmp_path, 9, 1)
    file.settle(5)
    file.settle(8)
    file.close()
    path = tmp_path / FILE_NAME
    whole = path.read_bytes()
    place = max(range(len(whole) - 11), key=lambda at: whole[at : at + 12] == _entry(8))
    for at in range(place, place + 16):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[at] ^= 1 << bit
            path.write_bytes(flipped)
            assert committed_in(tmp_path) == 5
            assert synced_in(tmp_path) == (9, 1, False)


def _entry(committed_end: int) -> bytes:
    return b"CmE1" + committed_end.to_bytes(8, "big")
