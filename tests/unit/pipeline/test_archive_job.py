"""When an archiver looks for records, merges, and ends: without Spark, whose part an archive has that only notes the calls."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from quorum_pipeline.archive.layout import OffsetRange
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_reader import Archived
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.spark.archive_job import ArchiveJob, Merging
from support.written_log import LogWriter, write_history

MERGING = Merging(1_000, 0, 60)


class Noted:
    """An archive, and a log that has more records whenever it is asked for its end. `calls`: what was called, in order."""

    name = "noted"

    def __init__(self, grows: bool, merges: int = 0, wrong: Exception | None = None) -> None:
        self.calls = list[str]()
        self._grows, self._merges, self._wrong = grows, merges, wrong
        self._end = 10

    def remembering(self) -> AbstractContextManager[None]:
        """See Archive."""
        return nullcontext()

    def contents(self) -> Archived:
        """See Archive."""
        return Archived(0, 1, (OffsetRange(0, 1),), 0)

    def begin(self, options: dict[str, str]) -> tuple[Any, int]:
        """See Archive."""
        return self, 1

    def stages(self) -> list[Any]:
        """See Archive."""
        return []

    def cancel(self) -> None:
        """See Archive."""
        self.calls.append("cancel")

    def write(self, wanted: OffsetRange) -> None:
        """See Archive."""
        self.calls.append(f"write {wanted.start}-{wanted.end}")

    def merge_next(
        self, target_rows: int, keep_seconds: float, report: Callable[[str], None]
    ) -> bool:
        """See Archive."""
        self.calls.append(f"merge {target_rows}, {keep_seconds}")
        if self._wrong is not None:
            raise self._wrong
        self._merges -= 1
        return self._merges >= 0

    def bounds(self) -> tuple[int, int]:
        """See Origin."""
        self._end += self._grows
        return 0, self._end

    def check_end(self) -> None:
        """See Origin."""
        self.calls.append("check")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    writer = LogWriter(tmp_path / "node")
    write_history(writer)
    writer.close()
    return writer.directory


def run(
    log: Path, noted: Noted, every: float | None, merging: Merging | None, waits: int = 2
) -> list[str]:
    """Until it has waited so many times; what it said."""
    said = list[str]()

    def is_stopped(seconds: float) -> bool:
        if seconds:
            noted.calls.append(f"wait {seconds:g}")
        ended = noted.calls.count(f"wait {every or 0:g}") >= waits
        return ended or len(noted.calls) > 30

    archive: Any = noted
    job = ArchiveJob(archive, open_log(log), 6, every, merging=merging)
    job.run(lambda end: None, said.append, is_stopped)
    return said


def test_end_of_the_log_is_checked_before_a_run_ends(log: Path) -> None:
    noted = Noted(grows=False)
    run(log, noted, None, MERGING)
    assert noted.calls == ["write 1-7", "write 7-10", "check"]


def test_a_following_archiver_waits_also_while_records_arrive_all_the_time(log: Path) -> None:
    """A quorum writes a record every half a second, so that there are new ones after each range."""
    noted = Noted(grows=True)
    run(log, noted, 5, None)
    assert noted.calls == [
        *("write 1-7", "write 7-12", "check", "wait 5"),
        *("write 12-13", "check", "wait 5"),
    ]


def test_ranges_are_merged_until_few_remain_and_not_more_often_than_requested(log: Path) -> None:
    noted = Noted(grows=False, merges=2)
    run(log, noted, 5, MERGING)
    merges = ["merge 1000, 60"]
    first = ["write 1-7", "write 7-10", "check", *merges * 3, "wait 5"]
    assert noted.calls == [*first, "check", *merges, "wait 5"]
    noted = Noted(grows=False, merges=2)
    run(log, noted, 5, Merging(1_000, 3_600, 60))
    assert noted.calls == [*first, "check", "wait 5"]


def test_failed_merge_is_reported_and_archiving_continues(log: Path) -> None:
    noted = Noted(grows=True, wrong=PipelineError("a file is damaged"))
    said = run(log, noted, 5, MERGING)
    assert said[:2] == ["not merged: a file is damaged"] * 2
    assert sum(each.startswith("write") for each in noted.calls) == 3
    assert noted.calls.count("merge 1000, 60") == 2, "it is tried once each time"
    with pytest.raises(AssertionError, match="a defect"):
        run(log, Noted(grows=False, wrong=AssertionError("a defect")), 5, MERGING)
