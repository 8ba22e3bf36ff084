"""Results of tasks that Spark has lost with an executor: the tasks are repeated, and one that fails then is an error, not a span
without records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files import reduced_span, timeline_span
from quorum_pipeline.files.version_files import VersionStore
from quorum_pipeline.files.version_spans import LogRecords
from quorum_pipeline.spark.spark_history import DirectorySource, JobHistory
from quorum_pipeline.spark.stages import RowsHere, StagesHere
from quorum_pipeline.spark.timeline_job import log_source, read_timeline
from quorum_pipeline.spark.versions_job import LogVersions, _make, next_step
from quorum_pipeline.spark.versions_run import add_versions
from quorum_pipeline.state.moment import Moment
from support.written_log import LogWriter, write_history


@dataclass
class Repeated:
    """Rows of which nothing is stored: each use computes all of them again."""

    compute: Callable[[], RowsHere]

    def __getattr__(self, name: str) -> Any:
        def then(*given: Any) -> Any:
            if name == "unpersist":
                return None
            if name in ("collect", "toLocalIterator"):
                return getattr(self.compute(), name)(*given)
            return Repeated(lambda: getattr(self.compute(), name)(*map(_stored, given)))

        return then


def _stored(given: Any) -> Any:
    return given.compute() if isinstance(given, Repeated) else given


class StagesThatLoseResults(StagesHere):
    def parallelize(self, items: list[Any]) -> Repeated:  # type: ignore[override]
        return Repeated(partial(super().parallelize, items))


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(made)
    made.close()
    return made


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets a method fail for a span which it has read before, if it is not to be read any more."""

    def fail(owner: type, name: str, *, lost: bool) -> None:
        method, seen = getattr(owner, name), set[Any]()

        def once(self: Any, *given: Any) -> Any:
            if lost and self in seen and self.span.base_offset > 0:
                raise PipelineError(f"offset {self.span.base_offset} is not there any more")
            seen.add(self)
            return method(self, *given)

        monkeypatch.setattr(owner, name, once)

    return fail


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize(("name", "worth_bytes"), [("compacted", 0), ("reduced", 1 << 30)])
def test_span_of_a_state(
    writer: LogWriter, failing: Callable[..., None], name: str, worth_bytes: int, lost: bool
) -> None:
    failing(reduced_span.SpanTask, name, lost=lost)
    source = DirectorySource(writer.directory, None, worth_bytes)
    with JobHistory(StagesThatLoseResults(2), source) as found:
        if lost:
            with pytest.raises(PipelineError, match="is not there any more"):
                found.at(Moment())
            return
        assert found.at(Moment()).end_offset == writer.end_offset
        assert found.one_by_one == (name == "reduced")


@pytest.mark.parametrize("lost", [False, True])
def test_span_of_a_timeline(writer: LogWriter, failing: Callable[..., None], lost: bool) -> None:
    failing(timeline_span.LogTask, "read", lost=lost)
    source, stages = log_source(writer.directory, 2), StagesThatLoseResults(2)
    assert len(source.tasks) > 1
    if lost:
        with pytest.raises(PipelineError, match="is not there any more"):
            read_timeline(stages, source)
    else:
        assert read_timeline(stages, source).events == read_timeline(StagesHere(2), source).events


@pytest.mark.parametrize("lost", [False, True])
def test_span_of_versions(
    writer: LogWriter, failing: Callable[..., None], tmp_path: Path, lost: bool
) -> None:
    failing(LogRecords, "records", lost=lost)
    store = VersionStore(tmp_path / "versions")
    add = partial(add_versions, source=LogVersions(writer.directory), max_rows=1_000)
    stages = StagesThatLoseResults(2)
    if lost:
        with pytest.raises(PipelineError, match="is not there any more"):
            add(stages, store=store, progress=lambda end: None)
        assert store.stored() == []
    else:
        assert add(stages, store=store, progress=lambda end: None).versions > 10


def test_files_of_versions_have_the_same_names_and_contents(writer: LogWriter) -> None:
    """Their names are reported by one job, and their contents are written by a later one."""
    stages = StagesThatLoseResults(2)
    with JobHistory(stages, DirectorySource(writer.directory)) as history:
        source, end = LogVersions(writer.directory), writer.end_offset
        base = history.at(Moment(offset=30))
        step = next_step(stages, source, 30, end, base, known_ms=7)
        made = step.buckets.map(partial(_make, step._span()))
        first, second = made.collect(), made.collect()
    assert first == second
    assert sum(len(files) for files, _, _ in first) > 3
