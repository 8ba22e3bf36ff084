"""The state of a log by one replay, batch by batch: the reference for jobs, which replay spans and merge them."""

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogDirectory, LogSpan, open_log
from quorum_pipeline.files.log_moments import file_of, start_of
from quorum_pipeline.files.log_span import Damage, PlacedBatch, read_span
from quorum_pipeline.files.snapshot_file import SnapshotFile
from quorum_pipeline.state.moment import Moment
from support.replayed_state import BadRecord, Replayed

_WHOLE_SEGMENT = 1 << 62


def replay_directory(path: Path, moment: Moment) -> Replayed:
    """Raises PipelineError if it is not a log, is damaged, contradicts itself, or does not have this moment."""
    log = open_log(path)
    start = start_of(log, moment)
    state = Replayed()
    if start is not None:
        _begin(state, start)
    try:
        _replay_log(log, state, moment)
    except BadRecord as error:
        raise PipelineError(f"{file_of(log, error.offset)}, {error}") from None
    return state


def read_whole(span: LogSpan) -> Iterator[PlacedBatch]:
    """Every batch. Raises PipelineError on damage, OSError."""
    for found in read_span(span):
        if isinstance(found, Damage):
            raise PipelineError(str(found))
        yield found


def _begin(state: Replayed, start: SnapshotFile) -> None:
    bounds = start.bounds()
    try:
        state.begin(start.id, (batch for _, batch in start.batches()), bounds)
    except BadRecord as error:
        raise PipelineError(f"{start.path}, {error}") from None


def _replay_log(log: LogDirectory, state: Replayed, moment: Moment) -> None:
    until = moment.offset if moment.offset is not None else _WHOLE_SEGMENT
    spans = log.spans(state.end_offset, _WHOLE_SEGMENT)
    for span in takewhile(lambda span: span.base_offset < until, spans):
        for placed in read_whole(span):
            header = placed.batch.header
            if header.end_offset <= state.end_offset:
                continue
            late = moment.time_ms is not None and header.max_timestamp_ms > moment.time_ms
            if header.base_offset >= until or late:
                return
            state.batch(placed.batch, until)
            if state.end_offset >= until:
                return
