"""A damaged leader-epoch-checkpoint is reported as damage, whatever it contains."""

from pathlib import Path

import pytest

from quorum_node.broker.epoch_history import EpochHistory
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.leader_epochs import FILE_NAME, read_checkpoint, write_checkpoint


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"0\n1\n",
        b"1\n1\n1 0\n",
        b"0\n2\n1 0\n",
        b"0\n1\n-5 0\n",
        b"0\n1\n1 -5\n",
        b"0\n2\n1 0\n1 5\n",
        b"0\n2\n1 5\n2 4\n",
        b"0\n2\n2 0\n1 5\n",
        b"0\n1\n1 p\n",
        b"0\n1\n1 0\nrest",
        b"0\n1\n1 0 0\n",
        b"\xff\xfe",
    ],
)
def test_epochs_that_no_log_writes_are_damage(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(StorageFailure, match="is damaged"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("starts", [[], [(0, 0)], [(1, 0), (4, 17), (5, 17)], [(3, 1 << 40)]])
def test_epochs_written_by_a_log_are_read_back(
    tmp_path: Path, starts: list[tuple[int, int]]
) -> None:
    write_checkpoint(tmp_path, starts)
    found = read_checkpoint(tmp_path)
    assert found == starts
    EpochHistory(found)
