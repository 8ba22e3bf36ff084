"""An audit of three long replicas: each of three kinds of damage is named with its place, and few blocks are read again."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from quorum_node.records.batches import read_header
from quorum_pipeline.audit.digests import BLOCK_OFFSETS
from quorum_pipeline.files.log_directory import open_log
from support.audited import audit
from support.long_log import write_long_log

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

RECORDS = 2_000_000


def batch_at(path: Path, number: int) -> tuple[int, int, int, int]:
    """Position, size, first offset and number of records of a batch of a segment."""
    data = path.read_bytes()
    position = 0
    for _ in range(number):
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    header = read_header(data[position:])
    size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return position, size, header.base_offset, header.end_offset - header.base_offset


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("replicas")
    write_long_log(root / "a", RECORDS)
    for name in "bc":
        shutil.copytree(root / "a", root / name)
    return [root / name for name in "abc"]


def flipped(data: bytearray, position: int, size: int) -> None:
    data[position + size // 2] ^= 4


def missing(data: bytearray, position: int, size: int) -> None:
    del data[position : position + size]


def of_another_epoch(data: bytearray, position: int, size: int) -> None:
    """The epoch is not covered by the checksum: only log matching finds it."""
    data[position + 15] ^= 2


@pytest.mark.parametrize("harm", [flipped, missing, of_another_epoch])
def test_damage_in_a_long_log_is_found_by_comparing_few_blocks(
    harm: Callable[[bytearray, int, int], None], replicas: list[Path]
) -> None:
    segments = open_log(replicas[1]).segments
    path = segments[len(segments) // 2].path
    position, size, offset, count = batch_at(path, 7)
    sound = path.read_bytes()
    data = bytearray(sound)
    harm(data, position, size)
    path.write_bytes(data)
    try:
        found = audit(replicas)
    finally:
        path.write_bytes(sound)
    assert {each.replica for each in found.findings} == {str(replicas[1])}
    first = found.findings[0]
    print(*found.findings, sep="\n")
    assert first.offset is not None
    assert offset <= first.offset < offset + count
    if harm is not of_another_epoch:
        assert (Path(first.file).name, first.position) == (path.name, position)
    assert 1 <= found.logs.drilled <= 2, "blocks that were compared batch by batch"
    assert found.logs.blocks >= RECORDS // BLOCK_OFFSETS
    assert found.batches >= 3 * (RECORDS // 1_000) - 1


def test_undamaged_long_logs_are_compared_by_blocks_only(replicas: list[Path]) -> None:
    found = audit(replicas)
    assert (found.findings, found.logs.drilled) == ((), 0)
