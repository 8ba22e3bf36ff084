"""Offsets of a running quorum's log as rows. Owns how many rows are in memory at a time. No Spark."""

from collections.abc import Iterator
from contextlib import closing

from quorum_node.records.batches import Batch
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_rows import checked
from quorum_pipeline.live.quorum import Quorum
from quorum_pipeline.live.span_reader import SpanReader
from quorum_pipeline.rows.gathering import AnyRows, Gathering

NO_POSITION = -1


def live_rows(
    quorum: Quorum, start_offset: int, end_offset: int, *, keep_problems: bool
) -> Iterator[AnyRows]:
    """Yield the rows from `start_offset` to `end_offset` (exclusive), all committed. Raises PipelineError."""
    for offset, batches, server in _answers(quorum, start_offset, end_offset):
        rows = Gathering(server)
        for batch in batches:
            rows.add(batch, NO_POSITION, max(offset, start_offset), end_offset)
            if rows.is_enough:
                yield from checked(rows.take(), keep_problems=keep_problems)
        yield from checked(rows.take(), keep_problems=keep_problems)


def committed_batches(quorum: Quorum, start_offset: int, end_offset: int) -> Iterator[Batch]:
    """Yield the batches with these offsets; the first and the last one may have others, too. Raises PipelineError."""
    for _, batches, _ in _answers(quorum, start_offset, end_offset):
        yield from batches


def _answers(
    quorum: Quorum, start_offset: int, end_offset: int
) -> Iterator[tuple[int, list[Batch], str]]:
    """Yield the batches of each response, with the requested offset, and the server."""
    offset = start_offset
    if offset >= end_offset:
        return
    with closing(SpanReader(quorum, start_offset, end_offset)) as reader:
        while offset < end_offset:
            batches = reader.read(offset)
            if not batches:
                raise PipelineError(
                    f"{reader.name} returned no records at offset {offset}, although {end_offset} was committed"
                )
            yield offset, batches, reader.name
            offset = batches[-1].header.end_offset
