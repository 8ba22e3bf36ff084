"""A span of a log as rows. Owns the size of what is in memory at a time; knows no Spark."""

from collections.abc import Iterator

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogSpan
from quorum_pipeline.files.log_span import Damage, read_span
from quorum_pipeline.rows.table import Rows

ROWS_AT_ONCE = 10_000
UNKNOWN_EPOCH = -1


def span_rows(
    span: LogSpan, start_offset: int, end_offset: int, *, keep_problems: bool
) -> Iterator[Rows]:
    """Rows of the offsets from `start_offset` on and below `end_offset`.

    Damage is a row with a problem, or, without `keep_problems`, a PipelineError; so is a record that can't be decoded.
    """
    rows = Rows(span.path)
    for found in read_span(span):
        if isinstance(found, Damage):
            if found.offset < end_offset and (found.end_offset or end_offset) > start_offset:
                if not keep_problems:
                    raise PipelineError(str(found))
                # Damage may begin in an earlier micro batch, where it had a row, too.
                lost = max(found.offset, start_offset)
                rows.add_problem(lost, UNKNOWN_EPOCH, found.position, found.reason)
            continue
        header = found.batch.header
        if header.end_offset <= start_offset:
            continue
        if header.base_offset >= end_offset:
            break
        rows.add(found.batch, found.position, start_offset, end_offset)
        if len(rows) >= ROWS_AT_ONCE:
            yield checked(rows, keep_problems=keep_problems)
            rows = Rows(span.path)
    if len(rows):
        yield checked(rows, keep_problems=keep_problems)


def checked(rows: Rows, *, keep_problems: bool) -> Rows:
    """The rows, if problems may stay in them. Raises PipelineError."""
    if not keep_problems:
        for index, content in enumerate(rows.contents):
            if content.problem is not None:
                raise PipelineError(
                    f"{rows.source}, byte {rows.positions[index]}, offset {rows.offsets[index]}:"
                    f" {content.problem}"
                )
    return rows
