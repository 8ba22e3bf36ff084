"""Adds the versions of new records of a log or an archive to the stored ones, step by step.

Owns where a run begins and ends, and the check that it continues the same history. An incomplete step is ignored
(`files/version_files.py`), so a run may be interrupted at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

from quorum_pipeline.archive.layout import OffsetRange
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.merge_retries import retry_on_merge
from quorum_pipeline.files.version_files import StoredVersions, WrittenFile
from quorum_pipeline.spark.spark_history import JobHistory
from quorum_pipeline.spark.versions_job import Step, VersionSource, last_record, next_step
from quorum_pipeline.state.moment import Moment

if TYPE_CHECKING:
    from quorum_pipeline.spark.stages import Stages


class AnyVersionStore(Protocol):
    """Where versions are stored. Every call may raise PipelineError, OSError, and Spark's errors."""

    @property
    def name(self) -> str:
        """Path or URI."""

    def stored(self) -> list[StoredVersions]:
        """Return what is complete, in order."""

    def write(self, offsets: OffsetRange, step: Any) -> list[WrittenFile]:
        """Write the versions of a step; return the files, which do not count yet."""

    def complete(self, found: StoredVersions) -> None:
        """Make the files of `write` count."""


@dataclass(frozen=True, slots=True)
class Added:
    """`versions`: number of new ones; `open_at`: offset of a transaction that is open at the end; `how`: summary of the last step."""

    versions: int
    open_at: int | None
    how: str


def add_versions(
    stages: Stages,
    source: VersionSource,
    store: AnyVersionStore,
    max_rows: int,
    progress: Callable[[int], None],
    is_stopped: Callable[[], bool] = lambda: False,
    stored_more: Callable[[], object] = lambda: None,
) -> Added:
    """Add versions up to the current end of the source, or until `is_stopped`. `stored_more` is called after each step.

    Raises PipelineError, OSError, and Spark's errors.
    """
    stored, first = store.stored(), source.begin()
    at, end = (stored[-1].offsets.end if stored else first.offset), source.end_offset()
    if stored:
        _check_same(stages, source, store, stored[-1])
    versions, how, rows = 0, "", max_rows
    while at < end and not is_stopped():
        known_ms = first.time_ms if at == first.offset and not stored else None
        step = at, min(at + rows, end), known_ms
        found, how = retry_on_merge(
            source.archives, partial(_written, stages, source, store, *step)
        )
        if found is None:
            if at + rows >= end:
                return Added(versions, at, how)
            rows *= 2  # a transaction with more records
            continue
        store.complete(found)
        stored_more()
        versions += sum(each.rows for each in found.files)
        at, rows = found.offsets.end, max_rows
        progress(at)
    return Added(versions, None, how)


def _written(
    stages: Stages,
    source: VersionSource,
    store: AnyVersionStore,
    at: int,
    limit: int,
    known_ms: int | None,
) -> tuple[StoredVersions | None, str]:
    """Write the versions of a step, which does not count yet; None if a transaction is open in all of it. Also return how it was
    done.
    """
    step = step_at(stages, source, at, limit, known_ms)
    try:
        how = step.how(stages.place)
        if step.end == at:
            step.check(step.wrong)
            return None, how
        offsets = OffsetRange(at, step.end)
        files = store.write(offsets, step)
    finally:
        step.close()
    return StoredVersions(offsets, tuple(files), last_record(stages, source, step.end)), how


def follow_versions(
    stages: Stages,
    source: VersionSource,
    store: AnyVersionStore,
    max_rows: int,
    progress: Callable[[int], None],
    stopped: Event,
    every_seconds: float,
    stored_more: Callable[[], object] = lambda: None,
) -> Added:
    """Add versions until `stopped` is set, which ends it between two steps. Raises like `add_versions`."""
    found = Added(0, None, "")
    while not stopped.is_set():
        added = add_versions(stages, source, store, max_rows, progress, stopped.is_set, stored_more)
        found = Added(found.versions + added.versions, added.open_at, added.how or found.how)
        stopped.wait(every_seconds)
    return found


def step_at(
    stages: Stages, source: VersionSource, at: int, limit: int, known_ms: int | None
) -> Step:
    """Return the versions from an offset on, like `next_step`, with the same errors. To be closed after its rows are used."""
    if at == 0 and known_ms is None:
        return next_step(stages, source, at, limit, None, None)
    history = JobHistory(stages, source.states)
    base = history.at(Moment(offset=at))
    return replace(next_step(stages, source, at, limit, base, known_ms), history=history)


def _check_same(
    stages: Stages, source: VersionSource, store: AnyVersionStore, stored: StoredVersions
) -> None:
    end = stored.offsets.end
    if source.end_offset() < end:
        raise PipelineError(
            f"{store.name} has versions up to offset {end}, and {source.name} ends at {source.end_offset()}: read"
            " the replica or archive that the versions were written from"
        )
    found = retry_on_merge(source.archives, partial(last_record, stages, source, end))
    if None not in (found, stored.last) and found != stored.last:
        raise PipelineError(
            f"the record before offset {end} of {source.name} is not the one that {store.name} has versions of: it is "
            "another history. Use an empty directory for its versions"
        )
