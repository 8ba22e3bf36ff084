"""An archive in an object store with an S3 API: written, continued after a kill, and read, by commands as a user enters them."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from quorum_node.records import metadata as md
from support.local_quorum import wait_until
from support.object_store import ObjectStore
from support.object_store_jobs import spark_environment
from support.pipeline_process import PipelineProcess, run_pipeline, table
from support.written_log import LogWriter, write_history

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
BUCKET = "archives"
PLACE = "an archive"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        running.create_bucket(BUCKET)
        for key, value in spark_environment(running, tmp_path / "settings").items():
            monkeypatch.setenv(key, value)
        yield running


def result_of(*arguments: object) -> str:
    done = run_pipeline(*arguments, timeout_seconds=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.requirement("SP-03")
def test_archive_in_an_object_store_gives_the_results_of_the_log(
    store: ObjectStore, tmp_path: Path
) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    images = write_history(writer)
    writer.close()
    uri = f"s3a://{BUCKET}/{PLACE}"
    written = result_of("archive", "--log", writer.directory, "--to", uri, "--state-rows", 10)
    assert f"offsets 0 to {writer.end_offset}" in written
    for kept in ("deltas", "states"):
        names = [key for key in store.keys(BUCKET, f"{PLACE}/{kept}/") if key.endswith("parquet")]
        assert names, kept

    middle = sorted(images)[len(images) // 2]
    for offset in (middle, writer.end_offset):
        folders = [tmp_path / f"{name}-{offset}" for name in ("log", "store")]
        for source, folder in zip(
            (("--log", writer.directory), ("--archive", uri)), folders, strict=True
        ):
            result_of("state", *source, "--at-offset", offset, "--output", folder)
        tables = [path.stem for path in sorted(folders[0].glob("*.parquet"))]
        assert tables
        assert [table(folders[0], t) for t in tables] == [table(folders[1], t) for t in tables]
    timelines = []
    for source in (("--log", writer.directory), ("--archive", uri)):
        events = tmp_path / f"{source[0].strip('-')}.parquet"
        result_of("timeline", *source, "--parquet", events)
        timelines.append(pq.read_table(events).to_pylist())
    assert timelines[0]
    assert timelines[0] == timelines[1]
    result_of("audit", "--archive", uri, writer.directory)


@pytest.mark.requirement("SP-02")
def test_killed_writer_of_an_object_store_is_continued_without_loss(
    store: ObjectStore, tmp_path: Path
) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    uri = f"s3a://{BUCKET}/{PLACE}"
    command = ("archive", "--follow", "--every", "0.5", "--log", writer.directory, "--to", uri)
    with PipelineProcess(tmp_path / "output", *command) as running:
        wait_until(
            lambda: (
                any(key.endswith("_COMPLETE") for key in store.keys(BUCKET))
                or not running.is_running
            ),
            "the first complete range",
            240,
        )
        running.kill()
    writer.append(*[md.NoOpRecord()] * 20)
    writer.close()
    written = result_of("archive", "--log", writer.directory, "--to", uri)
    assert f"offsets 0 to {writer.end_offset}" in written
    result_of("audit", "--archive", uri, writer.directory)
