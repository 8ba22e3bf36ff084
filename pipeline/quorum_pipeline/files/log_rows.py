"""Reads a span of a log as rows. Owns the number of rows in memory at a time. Must not know Spark."""

from collections.abc import Iterable, Iterator

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogSpan
from quorum_pipeline.files.log_runs import read_runs
from quorum_pipeline.files.log_span import Damage
from quorum_pipeline.rows.gathering import AnyRows, Gathering
from quorum_pipeline.rows.runs import BatchRun

UNKNOWN_EPOCH = -1


def span_rows(
    span: LogSpan, start_offset: int, end_offset: int, *, keep_problems: bool
) -> Iterator[AnyRows]:
    """Read the rows of the offsets from `start_offset` on and below `end_offset`.

    Damage, or a record that can't be decoded, is a row with a problem; without `keep_problems` it raises PipelineError.
    """
    rows = Gathering(span.path)
    for found in read_runs(span, start_offset, end_offset):
        if isinstance(found, BatchRun):
            rows.add_run(found)
        elif isinstance(found, Damage):
            if found.offset < end_offset and _lost_until(found, end_offset) > start_offset:
                if not keep_problems:
                    raise PipelineError(str(found))
                # Damage that begins in an earlier micro batch already has a row there.
                lost = max(found.offset, start_offset)
                rows.add_problem(lost, UNKNOWN_EPOCH, found.position, found.reason)
        elif found.batch.header.base_offset >= end_offset:
            break
        elif found.batch.header.end_offset > start_offset:
            rows.add(found.batch, found.position, start_offset, end_offset)
        if rows.is_enough:
            yield from checked(rows.take(), keep_problems=keep_problems)
    yield from checked(rows.take(), keep_problems=keep_problems)


def _lost_until(found: Damage, end_offset: int) -> int:
    """Return the end of the range in which damage is reported: of that without lost offsets, the offset behind its own."""
    return end_offset if found.end_offset is None else max(found.end_offset, found.offset + 1)


def checked(blocks: Iterable[AnyRows], *, keep_problems: bool) -> Iterator[AnyRows]:
    """Yield the blocks. Raises PipelineError for rows with problems, unless `keep_problems`."""
    for rows in blocks:
        problem = None if keep_problems else min(rows.problems(), default=None)
        if problem is not None:
            index, reason = problem
            raise PipelineError(
                f"{rows.source}, byte {rows.positions[index]}, offset {rows.offsets[index]}:"
                f" {reason}"
            )
        yield rows
