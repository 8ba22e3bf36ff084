"""Downloading the newest snapshot while snapshots come and go."""

from pathlib import Path
from typing import cast

import pytest

from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.live.quorum import Quorum, SnapshotDeleted
from quorum_pipeline.live.snapshots import download_snapshot

PART_BYTES = 40


class Leaders:
    """Snapshots by the question for the newest one; each is gone when `gone_after` parts of it were given."""

    leader = "controller-1:9093"

    def __init__(self, ids: list[SnapshotId], gone_after: int) -> None:
        self._ids = ids
        self._gone_after = gone_after
        self._given = 0

    def newest_snapshot(self) -> SnapshotId:
        self._given = 0
        return self._ids[0]

    def snapshot_part(self, id: SnapshotId, position: int) -> tuple[bytes, int]:
        if len(self._ids) > 1 and self._given == self._gone_after:
            self._ids.pop(0)
            raise SnapshotDeleted(f"no snapshot {id}")
        assert id == self._ids[0]
        self._given += 1
        data = snapshot(id)
        return data[position : position + PART_BYTES], len(data)


def snapshot(id: SnapshotId) -> bytes:
    return b"".join(encode_snapshot(id, SnapshotBounds(7, 1, None), []))


def download(ids: list[SnapshotId], gone_after: int, directory: Path) -> list[str]:
    """The names of the files in it."""
    wanted = ids[-1]
    file = download_snapshot(cast(Quorum, Leaders(list(ids), gone_after)), directory)
    assert file.id == wanted
    assert file.path.read_bytes() == snapshot(wanted)
    return [path.name for path in directory.iterdir()]


@pytest.mark.parametrize("gone_after", [0, 1, 2])
def test_newest_snapshot_is_downloaded_when_the_previous_one_was_deleted(
    gone_after: int, tmp_path: Path
) -> None:
    ids = [SnapshotId(10, 1), SnapshotId(20, 1), SnapshotId(30, 2)]
    assert download(ids, gone_after, tmp_path) == [ids[-1].file_name]


def test_download_fails_if_every_snapshot_is_deleted(tmp_path: Path) -> None:
    ids = [SnapshotId(10 * number, 1) for number in range(1, 9)]
    with pytest.raises(SnapshotDeleted, match="no snapshot"):
        download(ids, 1, tmp_path)
    assert not list(tmp_path.iterdir())


def test_damaged_download_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = SnapshotId(10, 1)
    *begin, last = snapshot(named)
    monkeypatch.setitem(globals(), "snapshot", lambda _: bytes([*begin, last ^ 1]))
    with pytest.raises(PipelineError, match=rf"{named.file_name}, byte \d+: .*is damaged"):
        download_snapshot(cast(Quorum, Leaders([named], 9)), tmp_path)
