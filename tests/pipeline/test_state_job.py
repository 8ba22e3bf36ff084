"""A log's state and what changed in it, made on Spark's executors: equal to replay, and the driver decodes no record."""

import time
from itertools import pairwise
from pathlib import Path
from threading import Thread
from uuid import UUID

import pytest
from pyspark.sql import SparkSession

from quorum_node.records import metadata as md
from quorum_pipeline.deltas.shards import SHARD_PARTITIONS
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.spark.spark_history import WORTH_BYTES, DirectorySource, JobHistory
from quorum_pipeline.spark.stages import SparkStages
from quorum_pipeline.spark.state_job import SparkState
from quorum_pipeline.state.difference import differences
from quorum_pipeline.state.moment import Moment
from quorum_pipeline.state.tables import STATE_TABLES, TABLES_BY_NAME
from support.driver_only import nothing_decoded_here
from support.local_quorum import wait_until
from support.pipeline_process import run_pipeline
from support.replayed_directory import replay_directory
from support.replayed_state import Replayed
from support.written_log import TOPIC_ID, LogWriter, broker, partition, write_history


def history_of(
    spark: SparkSession, path: Path, span_bytes: int, worth_bytes: int = WORTH_BYTES
) -> JobHistory:
    """With `worth_bytes` 0 by compiled loops, however short the log is."""
    source = DirectorySource(path, span_bytes, worth_bytes)
    return JobHistory(SparkStages(spark.sparkContext), source)


def assert_same(found: SparkState, expected: Replayed) -> None:
    assert (found.id, found.timestamp_ms) == (expected.id, expected.timestamp_ms)
    assert (found.voters, found.in_transaction) == (expected.voters, expected.in_transaction)
    for table in STATE_TABLES:
        rows = list(found.rows(table))
        assert rows == list(expected.rows(table)), table.name
        assert found.count(table) == len(rows), table.name


def jobs_and_tasks(spark: SparkSession) -> tuple[int, int]:
    """The numbers of jobs, and of tasks, that the session has begun."""
    context = spark.sparkContext._jsc.sc()
    return context.dagScheduler().numTotalJobs(), int(context.taskScheduler().nextTaskId())


@pytest.mark.requirement("SP-03", "SP-08")
def test_states_of_a_log_split_into_many_spans(spark: SparkSession, tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, segment_bytes=2_000)
    images = write_history(writer)
    writer.close()
    with history_of(spark, tmp_path, 300, 0) as history:
        expected = [
            replay_directory(tmp_path, Moment(offset=each)) for each in (52, writer.end_offset)
        ]
        before = jobs_and_tasks(spark)
        with nothing_decoded_here():
            early, state = history.states([Moment(offset=each.end_offset) for each in expected])
            begun = [now - then for now, then in zip(jobs_and_tasks(spark), before, strict=True)]
            assert b"".join(early.snapshot()) == b"".join(expected[0].snapshot())
            assert b"".join(state.snapshot()) == images[writer.end_offset]
            assert_same(state, expected[1])
        assert sum(each.summary.records for each in history.done) == writer.end_offset
        assert len(history.done) > 5
        # One job to reduce the spans, and one for each state, of which no step has more tasks than run at a time.
        steps_of_a_state = 5
        assert begun[0] == 1 + 2
        assert begun[1] <= len(history.done) + 2 * steps_of_a_state * 2
        reported = history.how()
        assert f" {writer.end_offset} records (" in reported
        assert f" reduced in {len(history.done)} tasks" in reported
        assert "one by one" not in reported


@pytest.mark.long
@pytest.mark.requirement("SP-03")
def test_states_with_a_snapshot_a_time_and_an_open_transaction(
    spark: SparkSession, tmp_path: Path
) -> None:
    writer = LogWriter(tmp_path, segment_bytes=400)
    write_history(writer)
    writer.append(broker(4), broker(5))
    writer.snapshot(drop_log=True)
    topic = md.TopicRecord(name="again", topic_id=TOPIC_ID)
    writer.append(md.BeginTransactionRecord(name="t"), topic)
    writer.append(partition(0, (1, 2)))
    begun = writer.time_ms
    writer.append(md.EndTransactionRecord(), md.FenceBrokerRecord(id=4, epoch=4))
    writer.append(md.BeginTransactionRecord(name="u"), md.RemoveTopicRecord(topic_id=TOPIC_ID))
    writer.close()
    with history_of(spark, tmp_path, 100) as history:
        for moment in (Moment(time_ms=begun - 1), Moment(time_ms=begun), Moment()):
            assert_same(history.at(moment), replay_directory(tmp_path, moment))
        with pytest.raises(PipelineError, match="has no state at offset 999"):
            history.at(Moment(offset=999))


@pytest.mark.parametrize(
    "worth_bytes",
    [0, pytest.param(WORTH_BYTES, marks=pytest.mark.long)],
    ids=["compiled", "record by record"],
)
def test_partitions_of_a_large_topic_are_merged_by_all_tasks(
    spark: SparkSession, tmp_path: Path, worth_bytes: int
) -> None:
    count = 2 * SHARD_PARTITIONS + 808
    writer = LogWriter(tmp_path)
    for begin in range(0, count, 1_000):
        records = [partition(n, (1, 2)) for n in range(begin, min(begin + 1_000, count))]
        topics = [] if begin else [md.TopicRecord(name="large", topic_id=TOPIC_ID)]
        writer.append(*topics, *records)
    small = md.TopicRecord(name="small", topic_id=UUID(int=TOPIC_ID.int + 1))
    changes = [
        md.PartitionChangeRecord(partition_id=n, topic_id=TOPIC_ID, leader=2)
        for n in (0, SHARD_PARTITIONS, count - 1)
    ]
    middle = writer.end_offset
    writer.append(small, *changes)
    expected = writer.image_bytes()
    writer.close()
    with history_of(spark, tmp_path, 100_000, worth_bytes) as history:
        before, state = history.states((Moment(offset=middle), Moment()))
        assert history.one_by_one == bool(worth_bytes)
        assert b"".join(state.snapshot()) == expected
        topics_table, partitions_table = (TABLES_BY_NAME[name] for name in ("topics", "partitions"))
        assert [row["partitions"] for row in state.rows(topics_table)] == [count, 0]
        assert len(list(state.differences(before))) == 1 + len(changes)
        sizes = [len(each) for each in state.table_rows(partitions_table).glom().collect()]
    assert sum(sizes) == count
    assert max(sizes) <= 1.2 * count / 2, "tasks hold very different numbers of partitions"


@pytest.mark.requirement("SP-03")
def test_changes_between_two_offsets(spark: SparkSession, tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, segment_bytes=2_000)
    images = write_history(writer)
    writer.close()
    ends = [0, sorted(images)[5], writer.end_offset]
    expected = [replay_directory(tmp_path, Moment(offset=each)) for each in ends]
    with history_of(spark, tmp_path, 600) as history:
        states = history.states([Moment(offset=each) for each in ends])
        for (before, after), (first, last) in zip(
            pairwise(states), pairwise(expected), strict=True
        ):
            found = list(after.differences(before))
            assert found == list(differences(first, last))
            assert found


@pytest.mark.requirement("SP-03")
def test_errors_are_the_same_as_those_of_replay(spark: SparkSession, tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, segment_bytes=300)
    writer.append(broker(1), broker(2))
    writer.append(md.TopicRecord(name="orders", topic_id=TOPIC_ID), partition(0, (1, 2)))
    change = md.PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, leader=2)
    wrong = md.encode_metadata(change, md.PartitionChangeRecord.HIGHEST_VERSION)
    writer.append(md.NoOpRecord(), md.NoOpRecord())
    writer.append_bytes([wrong])
    writer.append(broker(3))
    writer.append_bytes([b"\x01\x03\x00"])
    writer.close()
    with history_of(spark, tmp_path, 100) as history:
        with pytest.raises(PipelineError) as reported:
            history.at(Moment())
        with pytest.raises(PipelineError) as expected:
            replay_directory(tmp_path, Moment(offset=8))
        assert str(reported.value) == str(expected.value)
        assert "offset 6: a change of partition" in str(reported.value)
        assert_same(history.at(Moment(offset=6)), replay_directory(tmp_path, Moment(offset=6)))
        first = min(writer.directory.glob("*.log"))
        first.write_bytes(first.read_bytes()[:70] + b"\xff" + first.read_bytes()[71:])
        with pytest.raises(PipelineError, match="is damaged at byte 0, offset 0: checksum differs"):
            history.at(Moment())


@pytest.mark.long
@pytest.mark.requirement("SP-03", "SP-08")
def test_state_commands_on_spark(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    writer.close()
    log = ["--log", str(tmp_path / "node")]
    for options in (
        ["state", *log, "--show", "brokers"],
        ["diff", *log, "--from", "10", "--to", "52"],
    ):
        here, there = run_pipeline(*options), run_pipeline(*options, "--master", "local[2]")
        assert (here.returncode, there.returncode) == (0, 0), there.stderr
        assert here.stdout == there.stdout
    output = run_pipeline(
        "state", *log, "--master", "local[2]", "--output", str(tmp_path / "tables")
    )
    assert "on Spark (local[2]): " in output.stdout
    assert (tmp_path / "tables" / "partitions.parquet").exists()


def test_running_step_of_spark_is_told(spark: SparkSession, tmp_path: Path) -> None:
    stages = SparkStages(spark.sparkContext)
    stages.describe("reduce 3 spans")
    # What Spark's UI shows of the jobs of this thread.
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "reduce 3 spans"
    (tmp_path / "begun").mkdir()

    def work(item: int, root: Path = tmp_path) -> list[int]:
        (root / "begun" / str(item)).touch()
        deadline = time.monotonic() + 60
        while item == 2 and not (root / "go").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return [item]

    found: list[list[int]] = []
    running = Thread(
        target=lambda: found.append(stages.parallelize([0, 1, 2]).flatMap(work).collect())
    )
    running.start()
    told = wait_until(
        lambda: (text := stages.progress()) and " 2 of 3 tasks" in text and text, "two are done", 60
    )
    assert str(told).startswith("reduce 3 spans: 2 of 3 tasks, about ")
    (tmp_path / "go").touch()
    running.join()
    assert found == [[0, 1, 2]]
