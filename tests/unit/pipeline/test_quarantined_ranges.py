"""Damage is in the quarantine of each range that it reaches into, and a range with damage can be archived whatever the damage is."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from quorum_node.records.batches import Batch, encode_values, framed, split_batches
from quorum_node.records.metadata import NoOpRecord, encode_metadata
from quorum_pipeline.archive.layout import OffsetRange
from quorum_pipeline.archive.missing_offsets import unexplained
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.log_rows import span_rows
from quorum_pipeline.live.live_rows import live_rows
from quorum_pipeline.live.quorum import Quorum
from quorum_pipeline.rows.gathering import AnyRows

VALUE = encode_metadata(NoOpRecord())
GARBAGE = b"\0" * 50
Read = tuple[list[int], list[int]]


def sound(offset: int, count: int) -> bytes:
    return encode_values(base_offset=offset, leader_epoch=1, timestamp_ms=1, values=[VALUE] * count)


def undecodable(offset: int, count: int) -> bytes:
    """A batch with a correct checksum whose records are none."""
    return framed(offset, 1, (0, count - 1, 1, 1, -1, -1, -1, count), b"\xff" * (count * 12))


def separated(blocks: Iterator[AnyRows]) -> Read:
    """Offsets of the records, and of the rows with a problem."""
    kept, apart = list[int](), list[int]()
    for rows in blocks:
        wrong = {index for index, _ in rows.problems()}
        for index, offset in enumerate(rows.offsets):
            (apart if index in wrong else kept).append(int(offset))
    return kept, apart


def read(log: Path, start: int, end: int, span_bytes: int) -> Read:
    spans = open_log(log).spans(start, span_bytes)
    return separated(
        rows for span in spans for rows in span_rows(span, start, end, keep_problems=True)
    )


@pytest.mark.parametrize("span_bytes", [1, 1 << 25])
@pytest.mark.parametrize(
    ("segments", "wanted", "kept", "apart"),
    [
        ({0: [sound(0, 3), undecodable(3, 5), sound(8, 4)]}, (0, 5), range(3), [3]),
        ({0: [sound(0, 3), undecodable(3, 5), sound(8, 4)]}, (5, 12), range(8, 12), [5]),
        ({0: [sound(0, 3), undecodable(3, 5), sound(8, 4)]}, (4, 6), [], [4]),
        ({0: [sound(0, 3), GARBAGE, sound(3, 4), sound(7, 1)]}, (0, 8), range(8), [3]),
        ({0: [sound(0, 3), GARBAGE, sound(3, 4), sound(7, 1)]}, (3, 8), range(3, 8), [3]),
        ({0: [sound(0, 3), sound(0, 3), sound(3, 4), sound(7, 1)]}, (0, 8), range(8), [3]),
        ({0: [GARBAGE, sound(0, 3)], 3: [sound(3, 4)]}, (0, 7), range(7), [0]),
        ({0: [sound(0, 3), GARBAGE], 3: [sound(3, 4)]}, (0, 7), range(7), [3]),
        ({0: [sound(0, 3), GARBAGE], 3: [GARBAGE, sound(3, 4)]}, (0, 7), range(7), [3, 3]),
        ({0: [sound(0, 3), GARBAGE], 3: [undecodable(3, 4)]}, (0, 7), range(3), [3, 3]),
    ],
)
def test_range_with_damage_can_be_archived(
    tmp_path: Path,
    segments: dict[int, list[bytes]],
    wanted: tuple[int, int],
    kept: list[int],
    apart: list[int],
    span_bytes: int,
) -> None:
    """It is reported, also where it takes no record with it, and no record is read twice."""
    for base, parts in segments.items():
        (tmp_path / f"{base:020d}.log").write_bytes(b"".join(parts))
    found = read(tmp_path, *wanted, span_bytes)
    assert found == (list(kept), apart)
    assert unexplained(OffsetRange(*wanted), *found) is None


class _Leader:
    """Gives a batch at a time."""

    leader = "controller-1:9093"

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = batches

    def read(self, offset: int, end_offset: int, max_bytes: int = 0) -> list[Batch]:
        return [e for e in self._batches if e.header.base_offset <= offset < e.header.end_offset]


def test_undecodable_batch_is_in_each_fetched_range(tmp_path: Path) -> None:
    batches, _ = split_batches(sound(0, 3) + undecodable(3, 5) + sound(8, 4))
    quorum = cast(Quorum, _Leader(batches))
    for start, end, expected in (
        (0, 5, ([0, 1, 2], [3])),
        (5, 10, ([8, 9], [5])),
        (6, 7, ([], [6])),
    ):
        found = separated(live_rows(quorum, start, end, keep_problems=True))
        assert found == expected
        assert unexplained(OffsetRange(start, end), *found) is None
