"""The state of a cluster at an offset or a time, from the directory of one replica.

Owns where replay begins (the newest snapshot that is not too new), where it ends, and what is read meanwhile. Knows no Spark: replay is one
after another by nature, and compiled loops do it as fast as a process starts elsewhere.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path

from quorum_node.records.batches import HEADER_BYTES, read_header
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogDirectory, LogSpan, open_log
from quorum_pipeline.files.log_span import PlacedBatch, read_whole
from quorum_pipeline.files.snapshot_file import SnapshotFile
from quorum_pipeline.state.moment import Moment
from quorum_pipeline.state.replayed import Replayed
from quorum_pipeline.state.replaying import BadRecord

_WHOLE_SEGMENT = 1 << 62
_SPAN_BYTES = 8 << 20
_Piece = tuple[list[PlacedBatch], PipelineError | OSError | None]
"""The batches of a span up to what is wrong with it."""


def replay_directory(
    path: Path,
    moment: Moment,
    progress: Callable[[int], None] = lambda end_offset: None,
    side_by_side: int = 1,
) -> Replayed:
    """`side_by_side`: pieces of the log that are read at a time, ahead of the replay.

    Raises PipelineError: not a log, damaged, contradicting itself, or without this moment.
    """
    log = open_log(path)
    start = start_of(log, moment)
    state = Replayed()
    if start is not None:
        _begin(state, start)
    try:
        _replay_log(log, state, moment, progress, side_by_side)
        state.finish()
    except BadRecord as error:
        raise PipelineError(f"{file_of(log, error.offset)}, {error}") from None
    return state


def start_of(log: LogDirectory, moment: Moment) -> SnapshotFile | None:
    """The snapshot that replay up to a moment begins with; None: with the first record.

    Raises PipelineError if the log does not have this moment.
    """
    end_offset = log.end_offset()
    if moment.offset is not None and not 0 <= moment.offset <= end_offset:
        raise _not_there(log, f"offset {moment.offset}", end_offset)
    start = _snapshot(log, moment)
    if start is None and log.start_offset > 0:
        wanted = f"time {moment.time_ms} ms" if moment.offset is None else f"offset {moment.offset}"
        raise _not_there(log, wanted, end_offset)
    return start


def _begin(state: Replayed, start: SnapshotFile) -> None:
    bounds = start.bounds()
    try:
        state.begin(start.id, (batch for _, batch in start.batches()), bounds)
    except BadRecord as error:
        raise PipelineError(f"{start.path}, {error}") from None


def file_of(log: LogDirectory, offset: int) -> Path:
    """The segment that has a record."""
    return max(
        (each for each in log.segments if each.base_offset <= offset),
        key=lambda each: each.base_offset,
    ).path


def _replay_log(
    log: LogDirectory,
    state: Replayed,
    moment: Moment,
    progress: Callable[[int], None],
    side_by_side: int,
) -> None:
    until = moment.offset if moment.offset is not None else _WHOLE_SEGMENT
    spans = log.spans(state.end_offset, _SPAN_BYTES)
    wanted = takewhile(lambda span: span.base_offset < until, spans)
    for batches in _read(wanted, side_by_side):
        for placed in batches:
            header = placed.batch.header
            if header.end_offset <= state.end_offset:
                continue
            late = moment.time_ms is not None and header.max_timestamp_ms > moment.time_ms
            if header.base_offset >= until or late:
                return
            state.batch(placed.batch, until)
            progress(state.end_offset)
            if state.end_offset >= until:
                return


def _read(spans: Iterable[LogSpan], side_by_side: int) -> Iterator[Iterable[PlacedBatch]]:
    """The batches of each span, in order. What is wrong with one is raised where it is reached."""
    if side_by_side == 1:
        yield from map(read_whole, spans)
        return
    ahead: deque[Future[_Piece]] = deque()
    with ThreadPoolExecutor(side_by_side) as pool:
        for span in spans:
            ahead.append(pool.submit(_piece, span))
            if len(ahead) > side_by_side:
                yield from _told(ahead.popleft().result())
        while ahead:
            yield from _told(ahead.popleft().result())


def _piece(span: LogSpan) -> _Piece:
    """On a thread: what is before damage may be all that is wanted."""
    found: list[PlacedBatch] = []
    try:
        found.extend(read_whole(span))
    except (PipelineError, OSError) as error:
        return found, error
    return found, None


def _told(piece: _Piece) -> Iterator[Iterable[PlacedBatch]]:
    found, error = piece
    yield found
    if error is not None:
        raise error


def _snapshot(log: LogDirectory, moment: Moment) -> SnapshotFile | None:
    """The newest one that is not too new; none is needed where the log has everything."""
    for each in reversed(log.snapshots):
        file = SnapshotFile(log.path / each.file_name, each)
        if moment.offset is not None and each.end_offset > moment.offset:
            continue
        if moment.time_ms is not None and _time_ms(file) > moment.time_ms:
            continue
        return file
    return None


def _time_ms(file: SnapshotFile) -> int:
    with file.path.open("rb") as opened:
        head = opened.read(HEADER_BYTES)
    return read_header(head).max_timestamp_ms


def _not_there(log: LogDirectory, wanted: str, end_offset: int) -> PipelineError:
    snapshots = ", ".join(str(each.end_offset) for each in log.snapshots)
    text = f"the log in {log.path} has no state at {wanted}: it has offsets {log.start_offset} to {end_offset}"
    return PipelineError(f"{text}, and snapshots at {snapshots}" if snapshots else text)
