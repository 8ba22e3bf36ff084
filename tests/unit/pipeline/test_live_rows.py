"""Offsets of a running quorum as rows: exactly the requested ones, though a leader returns whole batches."""

from pathlib import Path
from typing import cast

import pytest

from quorum_node.records.batches import Batch
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.live.live_rows import live_rows
from quorum_pipeline.live.quorum import Quorum
from support.replayed_directory import read_whole
from support.written_log import LogWriter, write_history


class Leader:
    """Gives a batch at a time."""

    leader = "controller-1:9093"

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = batches

    def read(self, offset: int, end_offset: int, max_bytes: int = 0) -> list[Batch]:
        return [
            each
            for each in self._batches
            if each.header.base_offset <= offset < each.header.end_offset
        ]


@pytest.fixture
def quorum(tmp_path: Path) -> Quorum:
    """With the history of `write_history`: offsets 10 to 49 are one batch."""
    writer = LogWriter(tmp_path)
    write_history(writer)
    writer.close()
    spans = open_log(tmp_path).spans(0, 1 << 30)
    batches = [placed.batch for span in spans for placed in read_whole(span)]
    return cast(Quorum, Leader(batches))


@pytest.mark.requirement("SP-01")
@pytest.mark.parametrize(
    ("start", "end"), [(0, 56), (10, 50), (10, 49), (11, 50), (15, 30), (12, 51)]
)
def test_range_starts_and_ends_at_the_requested_offsets(
    quorum: Quorum, start: int, end: int
) -> None:
    found = list(live_rows(quorum, start, end, keep_problems=False))
    offsets = [offset for rows in found for offset in rows.offsets]
    assert offsets == list(range(start, end))
    assert {rows.source for rows in found} == {"controller-1:9093"}


def test_missing_committed_records_are_reported(quorum: Quorum) -> None:
    with pytest.raises(
        PipelineError, match=r"returned no records at offset 56, although 57 was committed"
    ):
        list(live_rows(quorum, 50, 57, keep_problems=False))
