"""Archives that executors do not mount: the same results as of a mounted one, from the executors that get the files."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from quorum_node.records import metadata as md
from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.archive.layout import OffsetRange
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.archive_tasks import ArchiveSource, states
from quorum_pipeline.files.delta_builder import parsed_part
from quorum_pipeline.files.local_files import LocalFiles
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.version_files import VersionStore
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.archive_job import ArchiveJob
from quorum_pipeline.spark.frames import changes_frame, state_frame
from quorum_pipeline.spark.hadoop_files import HadoopFiles
from quorum_pipeline.spark.options import changes_options, state_options
from quorum_pipeline.spark.spark_history import JobHistory
from quorum_pipeline.spark.stages import SparkStages, StagesHere
from quorum_pipeline.spark.stored_states import keep_state
from quorum_pipeline.spark.timeline_job import archive_source, read_timeline
from quorum_pipeline.spark.version_frame import version_frame
from quorum_pipeline.spark.version_store import HadoopVersionStore
from quorum_pipeline.spark.versions_job import ArchiveVersions, LogVersions
from quorum_pipeline.spark.versions_run import add_versions
from quorum_pipeline.state.moment import Moment
from quorum_pipeline.state.tables import STATE_TABLES
from support.audited import audit
from support.driver_only import nothing_decoded_here
from support.hadoop_archive import hadoop_uri
from support.timelines import archived_timeline
from support.written_archive import write_archive
from support.written_log import BEGAN_MS, TOPIC_ID, LogWriter, partition, write_history


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path / "node", segment_bytes=2_000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "an archive of 100%20 #1"


def history(spark: SparkSession, root: Path, scratch: Path) -> JobHistory:
    """By executors, which get the files of an archive that they do not mount."""
    reader = reader_of(spark, root)
    return JobHistory(SparkStages(spark.sparkContext), ArchiveSource(reader, scratch))


def reader_of(spark: SparkSession, root: Path) -> ArchiveReader:
    reader = ArchiveReader(HadoopFiles(spark.sparkContext), hadoop_uri(spark, root))
    assert reader.mounted is None
    return reader


def mounted(root: Path, scratch: Path) -> JobHistory:
    reader = ArchiveReader(LocalFiles(), str(root))
    return JobHistory(StagesHere(), ArchiveSource(reader, scratch))


def archived(
    spark: SparkSession,
    root: Path,
    log: Path,
    max_rows: int = 20,
    state_rows: int = 1 << 30,
) -> Archive:
    """Made by executors and written by Spark, as executors can't write there themselves."""
    archive = Archive(spark, hadoop_uri(spark, root))
    archive.state_rows = state_rows
    job = ArchiveJob(archive, open_log(log), max_rows, None, span_bytes=500)
    job.run(lambda end: None, print)
    return archive


@dataclass(frozen=True)
class Written:
    """An archive of two ranges with a whole state between them, and its log, to which a batch was added afterwards. `images`: by
    offset, in order of batches.
    """

    root: Path
    log: Path
    images: dict[int, bytes]
    end_offset: int

    def copied(self, root: Path) -> None:
        shutil.copytree(self.root, root)


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Written:
    root = tmp_path_factory.mktemp("written")
    writer = LogWriter(root / "node", segment_bytes=2_000)
    images = write_history(writer)
    end = writer.end_offset
    archived(spark, root / "archive", writer.directory, max_rows=40, state_rows=10)
    writer.elect(3)
    images = images | {writer.end_offset: writer.image_bytes()}
    writer.close()
    return Written(root / "archive", writer.directory, images, end)


@pytest.mark.requirement("SP-03")
def test_states_of_an_archive_written_by_spark_equal_those_of_a_mounted_one(
    spark: SparkSession, written: Written, root: Path, tmp_path: Path
) -> None:
    written.copied(root)
    images, end = written.images, written.end_offset
    ranges = reader_of(spark, root).ranges()
    assert len(ranges) == 2
    with history(spark, root, tmp_path) as found, mounted(root, tmp_path) as expected:
        middle = max(each for each in images if each < ranges[0].end)  # before the whole state
        with nothing_decoded_here():
            state = found.at(Moment(offset=middle))
            assert b"".join(state.snapshot()) == images[middle]
        assert not found.one_by_one
        assert sum(each.summary.records for each in found.done) == middle
        # In one pass: the state by a time, and the differences from another one.
        number = len(images) - 4
        with nothing_decoded_here():
            state = found.at(Moment(time_ms=BEGAN_MS + 1000 * number))
            assert b"".join(state.snapshot()) == [*images.values()][number]
            differences = list(found.differences(middle, end))
        assert len(found.done) > len(ranges), "not one task per file"
        assert differences == list(expected.differences(middle, end))
        assert differences
        with pytest.raises(PipelineError, match=f"has offsets 0 to {end}, not {end + 1}"):
            found.at(Moment(offset=end + 1))


def with_a_flipped_bit(file: Path) -> bytes:
    """The content of a file of records, wrong in the last page of their bytes."""
    row_group = pq.read_metadata(file).row_group(0)
    columns = [row_group.column(number) for number in range(row_group.num_columns)]
    (values,) = (each for each in columns if each.path_in_schema == "value")
    content = bytearray(file.read_bytes())
    content[values.data_page_offset + values.total_compressed_size - 1] ^= 1
    return bytes(content)


@pytest.mark.long
@pytest.mark.requirement("SP-03")
def test_deltas_and_states_of_a_copied_archive_are_used(
    spark: SparkSession, writer: LogWriter, root: Path, tmp_path: Path
) -> None:
    """Of one that was written where it was mounted; the next test uses those that executors wrote."""
    images = write_history(writer)
    writer.close()
    end = writer.end_offset
    write_archive(root, writer.directory, 0, 7, 30, deltas=True)
    assert keep_state(StagesHere(), ArchiveReader(LocalFiles(), str(root)), 1) == 30
    write_archive(root, writer.directory, 30, end, deltas=True)
    with history(spark, root, tmp_path) as found, mounted(root, tmp_path) as expected:
        for moment in (
            Moment(offset=20),
            Moment(offset=end),
            Moment(time_ms=BEGAN_MS + 1000 * (len(images) - 2)),
        ):
            snapshot = b"".join(expected.at(moment).snapshot())
            with nothing_decoded_here():
                assert b"".join(found.at(moment).snapshot()) == snapshot
            assert found.rows_read == expected.rows_read
        assert b"".join(found.at(Moment()).snapshot()) == images[end]
        assert sum(each.summary.records for each in found.done) == end - 30, (
            "records were archived again"
        )


def flip(path: Path) -> None:
    """Hadoop's own checksum would replace the error by another one."""
    path.write_bytes(path.read_bytes()[:-9] + bytes([path.read_bytes()[-9] ^ 1]) + b"\0\0\0\0PAR1")
    path.with_name(f".{path.name}.crc").unlink()


@pytest.mark.requirement("SP-03")
def test_state_of_a_written_archive_costs_what_changed_since_the_last_state(
    spark: SparkSession,
    written: Written,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deltas and states are kept up there as on a mounted file system, merged, and replaced when they are damaged."""
    written.copied(root)
    (at,) = (offset for offset, _ in states(reader_of(spark, root)))
    assert at < written.end_offset
    archive = archived(spark, root, written.log, max_rows=5)
    end = archive.contents().end
    assert end > written.end_offset

    def read(damaged: int) -> int:
        with history(spark, root, tmp_path) as found:
            with nothing_decoded_here():
                assert b"".join(found.at(Moment()).snapshot()) == written.images[end]
            assert not found.one_by_one
            assert len(found.damaged) == damaged
            return sum(each.summary.records for each in found.done)

    assert read(0) == end - at
    delete = HadoopFiles.delete

    def killed(self: HadoopFiles, name: str) -> None:
        delete(self, name)
        if name.endswith("/_COMPLETE"):
            raise PipelineError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(HadoopFiles, "delete", killed)
        with pytest.raises(PipelineError, match="killed"):
            archive.compact(1_000, print)
    assert archive.compact(1_000, print) == 1
    (_,) = (root / "records").glob("offsets=*")
    (merged,) = (root / "deltas").glob("offsets=*")
    kept = [each for each in merged.iterdir() if each.suffix == ".parquet"]
    assert sum(parsed[1] - parsed[0] for each in kept if (parsed := parsed_part(each.name))) == end
    assert archive.marker(archive.contents().ranges[0]).delta_rows > 0
    assert read(0) == end - at
    assert [each.name for each in root.glob("*/_writing")] == []
    flip(next((root / "states").glob("*/*.parquet")))
    assert read(1) == end, "the deltas of all records"
    flip(kept[0])
    assert read(2) == end, "the records of this delta"


@pytest.mark.requirement("SP-03")
def test_frames_of_states_and_changes_equal_the_data_sources(
    spark: SparkSession, writer: LogWriter, root: Path
) -> None:
    write_history(writer)
    writer.close()
    write_archive(root, writer.directory, 0, 30, writer.end_offset)
    uri = hadoop_uri(spark, root)
    of_state = {"table": "partitions", "versionAsOf": "52"}
    of_changes = {"table": "configs", "startingVersion": "20", "endingVersion": "52"}
    for frame, source, options in (
        (state_frame, "metadata_state", of_state),
        (changes_frame, "metadata_changes", of_changes),
    ):
        with nothing_decoded_here():
            found = frame(spark, path=uri, **options).collect()
        expected = spark.read.format(source).options(path=str(root), **options).load()
        assert sorted(found) == sorted(expected.collect())
        assert found
        if frame is state_frame:
            of_log = frame(spark, path=str(writer.directory), **options)
            assert of_log.schema == expected.schema
            assert sorted(of_log.collect()) == sorted(found)
        with pytest.raises(PipelineError, match="use state_frame or changes_frame"):
            (state_options if frame is state_frame else changes_options)({"path": uri, **options})


@pytest.mark.long
@pytest.mark.requirement("SP-03")
def test_damage_is_reported_with_the_uri(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=1)
    writer.append(md.TopicRecord(name="t", topic_id=TOPIC_ID))
    writer.append(*(partition(number, (1, 2)) for number in range(3)))
    change = md.PartitionChangeRecord(partition_id=7, topic_id=TOPIC_ID)
    writer.append_bytes([md.encode_metadata(change)])
    writer.close()
    first, second, third = write_archive(root, writer.directory, 0, 1, 4, 5)
    with history(spark, root, tmp_path) as found:
        with pytest.raises(
            PipelineError, match=rf"^viewfs://.*/{third.name}, offset 4: a change of partition"
        ):
            found.at(Moment())
        file = min(second.glob("*.parquet"))
        whole = file.read_bytes()
        file.write_bytes(with_a_flipped_bit(file))
        with pytest.raises(PipelineError, match=rf"^viewfs://.*/{second.name}/{file.name}: "):
            found.at(Moment(offset=4))
        file.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
        message = rf"^viewfs://.*/{second.name}/{file.name}: the checksum of its footer is wrong"
        with pytest.raises(PipelineError, match=message):
            found.at(Moment(offset=4))
        file.unlink()
        with pytest.raises(PipelineError, match=rf"{second.name} has 0 records, and its marker"):
            found.at(Moment(offset=4))
        assert found.at(Moment(offset=1)).end_offset == 1
        (first / "_COMPLETE").write_text("{")
        with pytest.raises(PipelineError, match=rf"^viewfs://.*/{first.name}/_COMPLETE is damaged"):
            found.at(Moment(offset=1))


@dataclass(frozen=True)
class Behind:
    """An archive of a log that began after a snapshot: written once, as tests that damage it have copies."""

    root: Path
    begins: SnapshotId
    end_offset: int
    image: bytes
    ranges: tuple[OffsetRange, ...]

    def copied(self, root: Path) -> None:
        shutil.copytree(self.root, root)


@pytest.fixture(scope="module")
def behind(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Behind:
    root = tmp_path_factory.mktemp("behind")
    writer = LogWriter(root / "node", segment_bytes=2_000)
    write_history(writer)
    begins = writer.snapshot(drop_log=True)
    write_history_again(writer)
    writer.close()
    ranges = archived(spark, root / "archive", writer.directory).contents().ranges
    return Behind(root / "archive", begins, writer.end_offset, writer.image_bytes(), ranges)


@pytest.mark.requirement("SP-03")
def test_archive_after_a_snapshot_gives_the_state_of_the_log(
    spark: SparkSession, behind: Behind, root: Path, tmp_path: Path
) -> None:
    behind.copied(root)
    begins = behind.begins
    with history(spark, root, tmp_path / "scratch") as found:
        (tmp_path / "scratch").mkdir()
        with nothing_decoded_here():
            assert b"".join(found.at(Moment()).snapshot()) == behind.image
        (tmp_path / "scratch" / begins.file_name).unlink()
        copied = root / "snapshots" / begins.file_name
        copied.write_bytes(copied.read_bytes()[:-1])
        (copied.parent / f".{copied.name}.crc").unlink()
        with pytest.raises(PipelineError, match=rf"{begins.file_name}, byte \d+: "):
            found.at(Moment())


@pytest.mark.long
@pytest.mark.requirement("SP-03")
def test_versions_equal_those_of_the_log(
    spark: SparkSession, writer: LogWriter, root: Path, tmp_path: Path
) -> None:
    write_history(writer)
    writer.close()
    end = writer.end_offset
    write_archive(root, writer.directory, 0, 7, 30, end, deltas=True)
    here, elsewhere = VersionStore(tmp_path / "here"), VersionStore(tmp_path / "elsewhere")
    add_versions(StagesHere(), LogVersions(writer.directory), here, 40, lambda end: None)
    stages = SparkStages(spark.sparkContext)
    source = ArchiveVersions(reader_of(spark, root), tmp_path)
    add_versions(stages, source, elsewhere, 40, lambda end: None)
    # Continued: the record before the end is looked up in the archive, and is the same.
    assert add_versions(stages, source, elsewhere, 40, lambda end: None).versions == 0
    assert [each.offsets for each in elsewhere.stored()] == [each.offsets for each in here.stored()]
    assert [each.last for each in elsewhere.stored()] == [each.last for each in here.stored()]
    for table in STATE_TABLES:
        rows = [stored_rows(store.root, table.name) for store in (here, elsewhere)]
        assert rows[0] == rows[1], table.name
        assert rows[0] or table.name not in ("partitions", "voters"), table.name


@pytest.mark.requirement("SP-03")
def test_versions_are_written_where_no_executor_can(
    spark: SparkSession,
    writer: LogWriter,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same as of a log on a mounted file system, also after a writer that was killed before its last step counted."""
    write_history(writer)
    here = VersionStore(tmp_path / "here")
    add_versions(StagesHere(), LogVersions(writer.directory), here, 40, lambda end: None)
    archive, end = tmp_path / "archive", writer.end_offset
    write_archive(archive, writer.directory, 0, 7, 30, end, deltas=True)
    stages = SparkStages(spark.sparkContext)
    source, uri = ArchiveVersions(reader_of(spark, archive), tmp_path), hadoop_uri(spark, root)
    store, write = HadoopVersionStore(spark, uri), HadoopFiles.write

    def killed(self: HadoopFiles, file: str, text: str) -> None:
        if store.stored():
            raise PipelineError("killed")
        write(self, file, text)

    with monkeypatch.context() as patch:
        patch.setattr(HadoopFiles, "write", killed)
        with pytest.raises(PipelineError, match="killed"):
            add_versions(stages, source, store, 40, lambda end: None)
    assert [each.offsets.end for each in store.stored()] == [here.stored()[0].offsets.end]
    assert len(list(root.glob("offsets=*"))) == 2
    with nothing_decoded_here():
        assert add_versions(stages, source, store, 40, lambda end: None).versions
    assert add_versions(stages, source, store, 40, lambda end: None).versions == 0
    assert [each.offsets for each in store.stored()] == [each.offsets for each in here.stored()]
    assert [each.last for each in store.stored()] == [each.last for each in here.stored()]
    for each in STATE_TABLES:
        assert stored_rows(root, each.name) == stored_rows(here.root, each.name), each.name
    assert all(stored_rows(root, name) for name in ("topics", "configs", "partitions", "voters"))
    frames = [version_frame(spark, path=each, table="partitions") for each in (uri, str(here.root))]
    assert sorted(frames[0].collect(), key=repr) == sorted(frames[1].collect(), key=repr) != []
    assert not (root / "_writing").exists()
    change = md.PartitionChangeRecord(partition_id=7, topic_id=UUID(int=99))
    writer.append_bytes([md.encode_metadata(change)])
    writer.close()
    write_archive(archive, writer.directory, end, writer.end_offset)
    before = store.stored()
    with pytest.raises(PipelineError, match=rf"offset {writer.end_offset - 1}: "):
        add_versions(stages, source, store, 40, lambda end: None)
    assert store.stored() == before


def stored_rows(root: Path, table: str) -> list[str]:
    files = map(pq.ParquetFile, root.glob(f"offsets=*/{table}/*.parquet"))
    return sorted(repr(row) for file in files for row in file.read().to_pylist())


@pytest.mark.requirement("SP-05")
def test_timeline_equals_that_of_a_mounted_archive(
    spark: SparkSession, behind: Behind, root: Path, tmp_path: Path
) -> None:
    behind.copied(root)
    begins, ranges = behind.begins, behind.ranges
    expected = archived_timeline(root)
    stages = SparkStages(spark.sparkContext)
    source = archive_source(reader_of(spark, root), tmp_path)
    with nothing_decoded_here():
        found = read_timeline(stages, source)
    assert found.events == expected.events
    assert len(found.events) > 2
    assert (found.begin_ms, found.end_ms) == (expected.begin_ms, expected.end_ms)
    records = [each.records for each in found.reads]
    assert sum(records) == behind.end_offset - source.start_offset
    assert len(found.reads) > len(ranges) > 1, "not one task per file"
    assert begins.end_offset >= source.start_offset > 0
    (last,) = (root / "records" / ranges[-1].directory).glob("*.parquet")
    last.write_bytes(last.read_bytes()[:40] + b"\0" * 9 + last.read_bytes()[49:])
    with pytest.raises(PipelineError, match=rf"^viewfs://.*/{last.name}: "):
        read_timeline(stages, archive_source(reader_of(spark, root), tmp_path))


def write_history_again(writer: LogWriter) -> None:
    """Elections, and a partition that has no leader for a while."""
    for leader in (2, 3, 2):
        writer.elect(leader)
        topic = UUID(int=writer.epoch)
        writer.append(md.TopicRecord(name=f"topic-{writer.epoch}", topic_id=topic))
        writer.append(partition(0, (1, 2), topic))
        for each in (-1, 2):
            writer.append(md.PartitionChangeRecord(partition_id=0, topic_id=topic, leader=each))


@pytest.mark.requirement("SP-04")
def test_audit_equals_that_of_a_mounted_archive(
    spark: SparkSession, writer: LogWriter, root: Path, tmp_path: Path
) -> None:
    """Batches go over the borders of ranges, and those of several; two are damaged. Of one that is sound: test_audit_job.py."""
    write_history(writer)
    writer.snapshot()
    writer.close()
    write_archive(root, writer.directory, 0, 5, 20, 30, writer.end_offset)
    damaged, missing = (
        min((root / "records").glob(f"*00000{start:02d}-*/*.parquet")) for start in (5, 20)
    )
    damaged.write_bytes(with_a_flipped_bit(damaged))
    missing.unlink()
    reader = reader_of(spark, root)
    with nothing_decoded_here():
        found = audit([writer.directory], (reader,), stages=SparkStages(spark.sparkContext))
    findings = [
        replace(
            each,
            replica=each.replica.replace(reader.uri, str(root)),
            what=each.what.replace(reader.uri, str(root)),
        )
        for each in found.findings
    ]
    expected = audit([writer.directory], (root,))
    assert findings == [*expected.findings]
    assert (found.batches, found.replayed) == (expected.batches, expected.replayed)
    assert found.matching.compared == expected.matching.compared
    reported = " ".join(map(str, findings))
    assert damaged.name in reported
    assert missing.parent.name in reported
