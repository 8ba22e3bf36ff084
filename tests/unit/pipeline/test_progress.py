"""Progress of long work: what is done, how fast, and what is left, also while a job runs."""

from threading import Event, Thread

import pytest

from quorum_pipeline.commands import progress as module
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.spark.stages import StagesHere


def test_rate_and_rest_are_told_every_few_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    progress = Progress("archiving", "offsets")
    progress.expect(50_000)
    progress(0)
    for seconds, count in ((1.0, 1_000), (3.0, 20_000), (4.0, 21_000), (10.0, 50_000)):
        now[0] = 100.0 + seconds
        progress(count)
    assert capsys.readouterr().err.splitlines() == [
        "[   3.0 s] archiving: 20,000 offsets, 6,667 a second, 30,000 left, about 4 s",
        "[  10.0 s] archiving: 50,000 offsets, 5,000 a second, 0 left, about 0 s",
    ]


def test_running_step_and_its_tasks_are_told() -> None:
    stages, go, begun = StagesHere(1), Event(), Event()

    def work(item: int) -> list[int]:
        if item == 2:
            begun.set()
            assert go.wait(60)
        return [item]

    assert stages.doing() is None
    stages.describe("reduce 4 spans")
    running = Thread(target=stages.rows([0, 1, 2, 3]).flatMap, args=(work,))
    running.start()
    assert begun.wait(60)
    told = stages.doing()
    assert told is not None
    assert told.startswith("reduce 4 spans: 2 of 4 tasks, about ")
    go.set()
    running.join()
    assert stages.doing() is None


def test_watched_work_is_told_until_it_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EVERY_SECONDS", 0.001)
    asked, told = Event(), iter(["a", None, "b"])

    def look() -> str | None:
        found = next(told, None)
        if found == "b":
            asked.set()
        return found

    progress = Progress("state", "offsets")
    with progress.watching(look):
        assert asked.wait(60)
    assert [line.partition("] ")[2] for line in capsys.readouterr().err.splitlines()] == ["a", "b"]
