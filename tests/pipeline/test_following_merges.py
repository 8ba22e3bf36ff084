"""An archiver that follows a log merges small ranges itself, in a mounted archive and elsewhere."""

from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from quorum_node.records import metadata as md
from quorum_pipeline.archive.layout import RECORDS, Marker, OffsetRange
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.archive_job import ArchiveJob, Merging
from quorum_pipeline.spark.hadoop_files import HadoopFiles
from quorum_pipeline.state.moment import Moment
from support.written_archive import archived_state
from support.written_log import LogWriter, write_history

HOUR = 3_600


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HadoopFiles, "local_path", lambda self, directory: None)


@pytest.mark.long
@pytest.mark.parametrize("mounted", [True, False])
def test_following_archiver_merges_small_ranges(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: bool
) -> None:
    """The first merge is interrupted before it is complete. After the second one more records follow."""
    if not mounted:
        elsewhere(monkeypatch)
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    images = write_history(writer)
    root = tmp_path / "archive"
    archive, said = Archive(spark, str(root)), list[str]()
    complete = Archive._complete

    def killed_once(self: Archive, range: OffsetRange, marker: Marker) -> None:
        if marker.merged and not any("not merged" in each for each in said):
            raise PipelineError("killed")
        complete(self, range, marker)

    merged_end = 0

    def is_stopped(seconds: float) -> bool:
        nonlocal merged_end
        if not merged_end and said and "directories remain" in said[-1]:
            merged_end = writer.end_offset
            writer.append(*[md.NoOpRecord()] * 3)
        return bool(merged_end) and archive.contents().end == writer.end_offset

    monkeypatch.setattr(Archive, "_complete", killed_once)
    merging, step = Merging(1_000, 0, HOUR), writer.end_offset // 16
    count = -(-writer.end_offset // step)
    job = ArchiveJob(archive, open_log(writer.directory), step, 0.1, merging=merging)
    with archive.only_writer():
        job.run(lambda end: None, said.append, is_stopped)
    writer.close()
    ranges = archive.contents().ranges
    assert [(each.start, each.end) for each in ranges] == [
        (0, merged_end),
        (merged_end, writer.end_offset),
    ]
    assert archive.marker(ranges[0]).merged == count
    assert "not merged: killed" in said
    what = f"merging {count} directories with {merged_end} records into "
    assert sum(each.startswith(what) for each in said) == 2
    records = ds.dataset(root / RECORDS, format="parquet", partitioning="hive")
    found = records.to_table(columns=["offset"])["offset"].to_pylist()
    assert sorted(found) == list(range(writer.end_offset))
    monkeypatch.undo()
    for offset in (list(images)[1], merged_end):
        image = b"".join(archived_state(root, Moment(offset=offset)).snapshot())
        assert image == images[offset]
    parts = list((root / RECORDS / "_merged").glob("*"))
    assert len(parts) == (count if mounted else 0)
    assert len(list((root / "deltas").glob("offsets=*"))) == count + 2, (
        "queries may still read them"
    )


@pytest.mark.long
def test_of_two_archivers_without_a_lock_the_first_one_stops(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    writer.close()
    root = tmp_path / "archive"
    first, second = Archive(spark, str(root)), Archive(spark, str(root))
    with first.only_writer():
        step = writer.end_offset // 16
        ArchiveJob(first, open_log(writer.directory), step, None).run(lambda end: None, print)
        before = first.contents()
        with second.only_writer():
            with pytest.raises(PipelineError, match="another process has begun to write"):
                first.merge_next(1_000, 0, print)
            assert second.contents() == before
            assert second.merge_next(1_000, 0, print)
    assert [len(each) for each in second.contents().ranges] == [before.end]
