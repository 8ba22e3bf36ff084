"""The state of a cluster from an archive: replays the snapshot before the archive, then every record."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.state.moment import Moment
from quorum_pipeline.state.replayed import Replayed
from quorum_pipeline.state.replaying import BadRecord


def replay_archive(
    archive: ArchiveReader,
    moment: Moment,
    progress: Callable[[int], None] = lambda end_offset: None,
    parallel_stages: int = 1,
) -> Replayed:
    """`parallel_stages`: files that are read at a time.

    Raises PipelineError: the archive does not have this moment, has records in quarantine, or contradicts itself.
    """
    state = Replayed()
    _begin(state, archive, moment)
    try:
        for found in archive.log_columns(moment.offset, parallel_stages):
            new = found.from_offset(state.end_offset)
            before = new if moment.time_ms is None else new.up_to_time(moment.time_ms)
            state.columns(before)
            progress(state.end_offset)
            if len(before) < len(new):
                break
        state.finish()
    except BadRecord as error:
        raise PipelineError(f"{archive.place_of(error.offset)}, {error}") from None
    return state


def _begin(state: Replayed, archive: ArchiveReader, moment: Moment) -> None:
    with tempfile.TemporaryDirectory(prefix="quorum-pipeline-") as scratch:
        snapshot = archive.snapshot(Path(scratch))
        if snapshot is None:
            return
        bounds = snapshot.bounds()
        early = moment.offset is not None and moment.offset < snapshot.id.end_offset
        if early or (
            moment.time_ms is not None and moment.time_ms < bounds.last_contained_log_timestamp_ms
        ):
            raise PipelineError(
                f"the archive begins after a snapshot at offset {snapshot.id.end_offset}; it has no state before that"
            )
        try:
            state.begin(snapshot.id, (batch for _, batch in snapshot.batches()), bounds)
        except BadRecord as error:
            raise PipelineError(f"{snapshot.path}, {error}") from None
