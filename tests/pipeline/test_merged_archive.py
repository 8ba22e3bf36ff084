"""An archive in which files were removed or damaged: it is not merged, nor continued with what is left of them. And any name of one."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from quorum_pipeline.archive.layout import RECORDS, STATES
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.sealed_file import parquet_files, seal, stem_of
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.archive_job import ArchiveJob
from support.written_log import LogWriter, write_history

NAME = b"orders"
"""Of a topic of the log."""


def written(
    spark: SparkSession, tmp_path: Path, state_rows: int = 1_000, name: str = "archive"
) -> tuple[Archive, list[Path]]:
    """An archive of several directories, and its files of records."""
    writer = LogWriter(tmp_path / "node")
    write_history(writer)
    writer.close()
    archive = Archive(spark, str(tmp_path / name))
    archive.state_rows = state_rows
    ArchiveJob(archive, open_log(writer.directory), 10, None).run(lambda end: None, print)
    ranges = archive.contents().ranges
    directories = [tmp_path / name / RECORDS / each.directory for each in ranges]
    return archive, [path for each in directories for path in parquet_files(each)]


def remove_file(paths: list[Path]) -> None:
    paths[1].unlink()


def replace_footer(paths: list[Path]) -> None:
    """As with a flipped bit: the checksum in the name is that of other bytes."""
    data = bytearray(paths[1].read_bytes())
    data[-10] ^= 1
    paths[1].write_bytes(data)


def replace_page(paths: list[Path]) -> None:
    """A flipped bit in a string, where no decompression notices it."""
    path = next(each for each in paths if NAME in _uncompressed(each))
    whole = path.with_name(".whole")
    pq.write_table(
        pq.read_table(path),
        whole,
        compression="none",
        use_dictionary=False,
        write_page_checksum=True,
    )
    path.unlink()
    path = path.with_name(seal(whole, stem_of(path.name)))
    data = bytearray(path.read_bytes())
    data[data.index(NAME)] ^= 1
    path.write_bytes(data)


def _uncompressed(path: Path) -> bytes:
    values = pq.read_table(path, columns=["value"]).column("value").to_pylist()
    return b"".join(each or b"" for each in values)


@pytest.mark.long
@pytest.mark.parametrize("damage", [remove_file, replace_footer, replace_page])
def test_damaged_directories_are_not_merged(
    spark: SparkSession, tmp_path: Path, damage: object
) -> None:
    assert callable(damage)
    archive, paths = written(spark, tmp_path)
    damage(paths)
    ranges = archive.contents().ranges
    with pytest.raises(PipelineError, match="offsets=") as raised:
        archive.compact(1_000, print)
    assert "\n" not in str(raised.value)
    if damage is not replace_page:  # pages are verified when they are read
        with pytest.raises(PipelineError, match="offsets="):
            archive.read()
    assert archive.contents().ranges == ranges


@pytest.mark.long
def test_state_of_removed_records_is_not_used_for_new_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive, _ = written(spark, tmp_path, state_rows=1)
    root = tmp_path / "archive"
    assert list((root / STATES).iterdir())
    shutil.rmtree(root / RECORDS)
    job = ArchiveJob(archive, open_log(tmp_path / "node"), 10, None)
    with pytest.raises(PipelineError, match=f"^{root} has no records, but states/offset="):
        job.run(lambda end: None, print)


@pytest.mark.long
@pytest.mark.parametrize("name", ["a[1] {b,c}*?", r"back\slash"])
def test_name_of_an_archive_is_not_taken_for_a_pattern(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """Spark's readers would look for other names, or merge the records of another archive."""
    archive, _ = written(spark, tmp_path, name=name)
    assert archive.compact(1_000, print) == 1
    assert archive.read().count() == archive.contents().end
