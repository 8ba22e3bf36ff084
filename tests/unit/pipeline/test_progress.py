"""Progress of long work: what is done, how fast, and what is left, also while a job runs."""

from pathlib import Path
from threading import Event, Thread

import pytest

from quorum_node.records import metadata as md
from quorum_pipeline.commands import progress as module
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.files.log_directory import LogSpan
from quorum_pipeline.files.reduced_span import SpanTask
from quorum_pipeline.live.controllers import Controllers
from quorum_pipeline.live.live_history import LiveRecords
from quorum_pipeline.spark import step as step_module
from quorum_pipeline.spark.origins import DirectoryOrigin
from quorum_pipeline.spark.stages import StagesHere
from quorum_pipeline.spark.step import Load, Step, load, load_of
from support.written_log import LogWriter


def test_rate_and_rest_are_told_every_few_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    progress = Progress("archiving", "offsets")
    progress.expect(50_000)
    progress(0)
    progress.measure(lambda: 3_210_000 if now[0] > 105 else 0)
    for seconds, count in ((1.0, 1_000), (3.0, 20_000), (4.0, 21_000), (10.0, 50_000)):
        now[0] = 100.0 + seconds
        progress(count)
    assert capsys.readouterr().err.splitlines() == [
        "[   3.0 s] archiving: 20,000 offsets, 6,667 a second, 30,000 left, about 4 s",
        "[  10.0 s] archiving: 50,000 offsets, 3.2 MB written, 5,000 a second, 0 left, about 0 s",
    ]


def test_running_step_and_its_tasks_are_told() -> None:
    stages, go, begun = StagesHere(1), Event(), Event()

    def work(item: int) -> list[int]:
        if item == 2:
            begun.set()
            assert go.wait(60)
        return [item]

    assert stages.progress() is None
    stages.describe("reduce 4 spans")
    running = Thread(target=stages.parallelize([0, 1, 2, 3]).flatMap, args=(work,))
    running.start()
    assert begun.wait(60)
    reported = stages.progress()
    assert reported is not None
    assert reported.startswith("reduce 4 spans: 2 of 4 tasks, about ")
    go.set()
    running.join()
    assert stages.progress() is None


def test_records_and_bytes_of_spans_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of the spans that are done here; in proportion to their number where others run them."""
    now = [100.0]
    monkeypatch.setattr(step_module, "monotonic", lambda: now[0])
    spans = [
        LogSpan("a.log", 0, 30_000_000, 0, 1_000, is_last=False),
        LogSpan("a.log", 30_000_000, 40_000_000, 1_000, 5_000, is_last=False),
    ]
    tasks = [(number, SpanTask(each, 0, 1 << 62)) for number, each in enumerate(spans)]
    step = Step()
    step.describe("reduce 2 spans")
    assert step.progress() is None
    step.begin(len(tasks), load_of(tasks))
    assert step.progress() == "reduce 2 spans: 0 of 2 tasks, 0 of 5,000 records, 0.0 MB of 40 MB"
    now[0] += 2
    step.end_task(load(tasks[0]))
    end = "about 2 s left"
    expected = "1 of 2 tasks, 1,000 of 5,000 records, 30 MB of 40 MB, 15 MB a second"
    assert step.progress() == f"reduce 2 spans: {expected}, {end}"
    expected = "1 of 2 tasks, 2,500 of 5,000 records, 20 MB of 40 MB, 10 MB a second"
    assert step.progress(2, 1) == f"reduce 2 spans: {expected}, {end}"
    step.end_task(load(tasks[1]))
    assert step.progress() is None
    # The last span of a growing log has no known end.
    open_end = SpanTask(LogSpan("a.log", 0, 5_000_000, 0, None, is_last=True), 0, 1 << 62)
    step.describe("reduce it")
    step.begin(2, load_of([open_end, "no task"]))
    expected = "1 of 2 tasks, 2.5 MB of 5.0 MB, about 0 s left"
    assert step.progress(2, 1) == f"reduce it: {expected}"
    live = [LiveRecords(Controllers((("h", 1),)), 10, 40)]
    assert load_of(live) == Load(0, 30)
    writer = LogWriter(tmp_path)
    writer.append(*[md.NoOpRecord()] * 10)
    writer.close()
    found = load_of(DirectoryOrigin(writer.directory, 1 << 20).tasks(0, 8))
    assert found == Load(next(writer.directory.glob("*.log")).stat().st_size, 8)


def test_progress_of_watched_work_is_reported_until_it_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EVERY_SECONDS", 0.001)
    reported, updates = Event(), iter(["a", None, "b"])

    def look() -> str | None:
        found = next(updates, None)
        if found == "b":
            reported.set()
        return found

    progress = Progress("state", "offsets")
    with progress.watching(look):
        assert reported.wait(60)
    assert [line.partition("] ")[2] for line in capsys.readouterr().err.splitlines()] == ["a", "b"]
