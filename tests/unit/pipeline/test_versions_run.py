"""`quorum-pipeline versions`: stored versions of a log or an archive, added to by later runs."""

import os
import signal
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.image.resource_types import TOPIC
from quorum_node.records import metadata as md
from quorum_node.records.control import VotersRecord
from quorum_pipeline.__main__ import main
from quorum_pipeline.archive.layout import MARKER
from quorum_pipeline.deltas import shards
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.local_files import LocalFiles
from quorum_pipeline.files.version_files import WRITING, VersionStore
from quorum_pipeline.files.version_spans import VersionTask
from quorum_pipeline.spark.stages import StagesHere
from quorum_pipeline.spark.stored_states import keep_state
from quorum_pipeline.spark.versions_job import LogVersions, Read, Step
from quorum_pipeline.spark.versions_run import Added, add_versions, follow_versions
from quorum_pipeline.state.moment import Moment
from quorum_pipeline.state.tables import STATE_TABLES, Row
from quorum_pipeline.state.versions import columns_of
from support.delta_checks import SHORT
from support.local_quorum import wait_until
from support.metadata_histories import histories
from support.metadata_records import config
from support.replayed_directory import replay_directory
from support.written_archive import write_archive
from support.written_log import TOPIC_ID, LogWriter, partition, voter, write_history

STAGES = StagesHere(2)


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path / "node", segment_bytes=2_000)


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "versions"


def add(writer: LogWriter, to: Path, max_rows: int = 1_000_000) -> Added:
    source = LogVersions(writer.directory)
    return add_versions(STAGES, source, VersionStore(to), max_rows, lambda end: None)


def stored(to: Path) -> dict[str, list[Row]]:
    """As any reader of Parquet finds them, by name alone."""
    found: dict[str, list[Row]] = {}
    for table in STATE_TABLES:
        paths = sorted(to.glob(f"offsets=*/{table.name}/*.parquet"))
        rows = [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]
        found[table.name] = sorted(rows, key=lambda row: (row["valid_from"], repr(row)))
    return found


def tables_at(versions: dict[str, list[Row]], offset: int) -> dict[str, list[Row]]:
    """What the versions say of an offset; of one row only one version is valid."""
    found: dict[str, list[Row]] = {}
    for table in STATE_TABLES:
        valid: dict[Any, Row] = {}
        for row in versions[table.name]:
            if row["valid_from"] <= offset:
                valid[tuple(row[name] for name in table.key)] = row
        left = [row for row in valid.values() if not row["deleted"]]
        names = columns_of(table)
        found[table.name] = sorted(({n: row[n] for n in names} for row in left), key=repr)
    return found


def node_tables(directory: Path, offset: int) -> dict[str, list[Row]]:
    """As a node has them that replays the log up to an offset."""
    state = replay_directory(directory, Moment(offset=offset))
    return {
        table.name: sorted(
            ({name: row[name] for name in columns_of(table)} for row in state.rows(table)), key=repr
        )
        for table in STATE_TABLES
    }


def as_a_node(writer: LogWriter, to: Path, start: int = 0) -> None:
    versions = stored(to)
    for table in STATE_TABLES:
        last: dict[Any, Row] = {}
        for row in versions[table.name]:
            key = tuple(row[name] for name in table.key)
            reported = {name: row[name] for name in (*columns_of(table), "deleted")}
            assert last.get(key) != reported, "a version does not begin with a change"
            last[key] = reported
    for offset in range(start, writer.end_offset + 1):
        assert tables_at(versions, offset) == node_tables(writer.directory, offset), offset


@pytest.mark.requirement("SP-03")
def test_versions_of_a_log_equal_those_of_a_node(
    writer: LogWriter, to: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_history(writer)
    writer.close()
    assert main(["versions", "--log", str(writer.directory), "--to", str(to)]) == 0
    as_a_node(writer, to)
    voters = stored(to)["voters"]
    assert voters
    out = capsys.readouterr().out
    assert f"offsets 0 to {writer.end_offset}" in out
    assert f"{'voters':12} {len(voters):12,} versions" in out


@pytest.mark.requirement("SP-03")
def test_versions_of_an_archive_are_those_of_its_log(
    writer: LogWriter, to: Path, tmp_path: Path
) -> None:
    write_history(writer)
    writer.close()
    root, end = tmp_path / "archive", writer.end_offset
    write_archive(root, writer.directory, 0, 7, 30, deltas=True)
    assert keep_state(STAGES, ArchiveReader(LocalFiles(), str(root)), 1) == 30
    options = ["--archive", str(root), "--to", str(to)]
    assert main(["versions", *options, "--max-rows", "11"]) == 0
    write_archive(root, writer.directory, 30, 41, end, deltas=True)
    assert main(["versions", *options]) == 0
    as_a_node(writer, to)
    add(writer, tmp_path / "others")
    assert stored(to) == stored(tmp_path / "others")


def test_versions_of_a_topic_in_several_buckets_are_those_of_a_node(
    writer: LogWriter, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step begins with a state whose topic and partitions come from several buckets."""
    monkeypatch.setattr(shards, "SHARD_PARTITIONS", 1)
    topic = md.TopicRecord(name="t", topic_id=TOPIC_ID)
    writer.append(topic, *(partition(n, (1, 2)) for n in range(9)))
    for leader in (1, 2):
        writer.append(
            *(
                md.PartitionChangeRecord(partition_id=n, topic_id=TOPIC_ID, leader=leader)
                for n in range(9)
            )
        )
    writer.append(md.RemoveTopicRecord(topic_id=TOPIC_ID))
    writer.close()
    add(writer, to, 7)
    as_a_node(writer, to)


SIZES = st.lists(st.integers(5, 12), min_size=1, max_size=3)


@pytest.mark.requirement("SP-03")
@given(histories(max_size=40), SIZES)
@settings(SHORT, max_examples=6)
def test_in_any_steps_they_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, values: list[bytes], sizes: list[int]
) -> None:
    check_steps(tmp_path_factory, values, sizes)


@pytest.mark.long
@pytest.mark.requirement("SP-03")
@given(histories(max_size=40), SIZES)
@settings(SHORT, max_examples=100)
def test_in_any_steps_they_are_the_same_many_times(
    tmp_path_factory: pytest.TempPathFactory, values: list[bytes], sizes: list[int]
) -> None:
    check_steps(tmp_path_factory, values, sizes)


def check_steps(
    tmp_path_factory: pytest.TempPathFactory, values: list[bytes], sizes: list[int]
) -> None:
    root = tmp_path_factory.mktemp("versions")
    writer, whole, parts = LogWriter(root / "node"), root / "whole", root / "parts"
    for number, begin in enumerate(range(0, len(values), 7)):
        writer.append_values(values[begin : begin + 7])
        if number < len(sizes):
            add(writer, parts, sizes[number])
    add(writer, parts, sizes[-1])
    writer.close()
    add(writer, whole)
    assert stored(parts) == stored(whole)
    found = replay_directory(writer.directory, Moment())
    if not found.in_transaction:
        at = tables_at(stored(whole), writer.end_offset)
        assert at == node_tables(writer.directory, writer.end_offset)


@pytest.mark.requirement("SP-03")
@pytest.mark.parametrize("step", ["before the marker", "before the rename"])
def test_output_of_an_interrupted_run_is_ignored(
    writer: LogWriter, to: Path, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_history(writer)
    with monkeypatch.context() as broken:

        def fail(*_: object) -> None:
            raise OSError("the process ends here")

        broken.setattr(
            VersionStore if step == "before the marker" else os,
            "complete" if step == "before the marker" else "rename",
            fail,
        )
        with pytest.raises(OSError, match="ends here"):
            add(writer, to, 20)
    assert list((to / WRITING).glob("*/*/*.parquet"))
    assert VersionStore(to).stored() == []
    assert not any(stored(to).values())
    added = add(writer, to, 20)
    assert not (to / WRITING).exists()
    add(writer, tmp_path / "whole")
    assert stored(to) == stored(tmp_path / "whole")
    assert added.versions == sum(map(len, stored(to).values()))
    before = sorted(path.name for path in to.iterdir())
    assert add(writer, to).versions == 0
    assert sorted(path.name for path in to.iterdir()) == before, (
        "rows were written although rows were written although nothing is new"
    )
    writer.close()


def test_versions_of_a_log_that_begins_with_a_snapshot(writer: LogWriter, to: Path) -> None:
    write_history(writer)
    start = writer.end_offset
    writer.snapshot(drop_log=True)
    writer.append(config(TOPIC, "a", "b", "c"))
    writer.append_control(VotersRecord((voter(1, 101),)))
    writer.close()
    add(writer, to, 1)
    as_a_node(writer, to, start)
    rows = [row for rows in stored(to).values() for row in rows]
    assert min(row["valid_from"] for row in rows) == start


def test_versions_of_a_log_that_lost_its_beginning_are_not_repeated(
    writer: LogWriter, to: Path
) -> None:
    """What is in the snapshot has versions already."""
    write_history(writer)
    add(writer, to)
    before = stored(to)
    writer.snapshot(drop_log=True)
    assert add(writer, to).versions == 0
    writer.append(config(TOPIC, "a", "b", "c"))
    writer.close()
    assert add(writer, to).versions == 1
    (new,) = (row for row in stored(to)["configs"] if row not in before["configs"])
    assert (new["value"], new["valid_from"]) == ("c", writer.end_offset)


def test_records_deleted_after_the_state_before_them_was_computed_are_missing(
    writer: LogWriter, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_history(writer)
    add(writer, to)
    end, tasks = writer.end_offset, LogVersions.tasks
    for _ in range(9):
        writer.append(config(TOPIC, "a", "b", "c" * 500))

    def truncated(self: LogVersions, start: int, limit: int) -> list[VersionTask]:
        if start == end:
            writer.snapshot(drop_log=True)
        return tasks(self, start, limit)

    monkeypatch.setattr(LogVersions, "tasks", truncated)
    with pytest.raises(PipelineError, match=f"the records from offset {end} to \\d+ are missing"):
        add(writer, to)
    writer.close()


def test_open_transaction_waits_for_its_end(writer: LogWriter, to: Path) -> None:
    first, second = (config(TOPIC, "a", "b", value) for value in "cd")
    writer.append(first, md.BeginTransactionRecord(name=None), second)
    assert add(writer, to).open_at == 1
    assert VersionStore(to).stored()[-1].offsets.end == 1
    assert add(writer, to).open_at == 1
    writer.append(md.NoOpRecord(), md.EndTransactionRecord())
    writer.close()
    assert add(writer, to, 2).open_at is None, "steps grow until the end of the transaction"
    values = [(row["value"], row["valid_from"]) for row in stored(to)["configs"]]
    assert values == [("c", 1), ("d", 5)]


def test_steps_that_wait_for_a_transaction_release_what_executors_store(
    writer: LogWriter, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that follows begins such a step again and again."""
    kept, released = list[object](), list[object]()
    keep, close = StagesHere.persist, Step.close

    def counted(self: StagesHere, rows: Any) -> Any:
        kept.append(rows)
        return keep(self, rows)

    def closed(self: Step) -> None:
        released.append(self.routed)
        close(self)

    monkeypatch.setattr(StagesHere, "persist", counted)
    monkeypatch.setattr(Step, "close", closed)
    writer.append(config(TOPIC, "a", "k", "1"), md.BeginTransactionRecord(name=None))
    writer.append(*(config(TOPIC, "b", f"k-{n}", "1") for n in range(5)))
    for max_rows in (100, 100, 2):
        assert add(writer, to, max_rows).open_at == 1
    writer.close()
    routed = {id(each) for each in released}
    # Each step keeps the records that it has routed; a state before it keeps more, and releases that itself.
    assert len(released) >= 5
    assert {id(each) for each in kept} >= routed
    assert len(routed) == len(released) == steps_of(kept)


def steps_of(kept: list[Any]) -> int:
    """How many of the stored rows are those of a step: they contain the summaries of their tasks."""
    return sum(
        any(isinstance(each[1], Read) for each in rows.collect() if isinstance(each, tuple))
        for rows in kept
    )


def test_log_of_another_history_is_rejected(writer: LogWriter, to: Path, tmp_path: Path) -> None:
    write_history(writer)
    add(writer, to)
    other = LogWriter(tmp_path / "other")
    for _ in range(writer.end_offset):
        other.append(config(TOPIC, "x", "y", "z"))
    with pytest.raises(PipelineError, match="it is another history"):
        add(other, to)
    short = LogWriter(tmp_path / "short")
    short.append(md.NoOpRecord())
    with pytest.raises(PipelineError, match="ends at 1"):
        add(short, to)


def test_contradiction_is_reported_and_nothing_is_written(writer: LogWriter, to: Path) -> None:
    change = md.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=1)
    writer.append(md.NoOpRecord())
    writer.append_bytes([md.encode_metadata(change)])
    writer.append_bytes([b"\1\3\0"])
    writer.close()
    with pytest.raises(PipelineError, match=r"offset 1: a change of partition .* does not exist"):
        add(writer, to)
    assert VersionStore(to).stored() == []


def test_undecodable_record_is_reported(writer: LogWriter, to: Path) -> None:
    writer.append(config(TOPIC, "a", "b", "c"))
    writer.append_bytes([b"\1\3\0"])
    writer.close()
    with pytest.raises(PipelineError, match="offset 1: PartitionRecord v0 runs past the end"):
        add(writer, to)


def test_missing_directories_and_damaged_markers_are_reported(writer: LogWriter, to: Path) -> None:
    write_history(writer)
    writer.close()
    add(writer, to, 20)
    first, second, *_ = sorted(to.glob("offsets=*"))
    second.rename(to / "elsewhere")
    with pytest.raises(PipelineError, match="directories were removed or added"):
        add(writer, to)
    (to / "elsewhere").rename(second)
    (first / MARKER).write_text("{}")
    with pytest.raises(PipelineError, match="_COMPLETE is damaged or missing"):
        add(writer, to)


def test_partition_has_a_version_for_each_change(writer: LogWriter, to: Path) -> None:
    writer.append(md.TopicRecord(name="t", topic_id=TOPIC_ID), partition(0, (1, 2)))
    for leader in (1, 2, 2):
        writer.append(md.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=leader))
    writer.close()
    add(writer, to)
    rows = stored(to)["partitions"]
    assert [row["leader"] for row in rows][1:] == [1, 2, 2]
    assert [row["valid_from"] for row in rows] == [2, 3, 4, 5]
    seconds = [row["valid_from_time"].timestamp() for row in rows]
    assert [each - seconds[0] for each in seconds] == [0, 1, 2, 3]


@pytest.mark.requirement("SP-03")
def test_versions_follow_a_growing_log_until_they_are_stopped(writer: LogWriter, to: Path) -> None:
    write_history(writer)
    first, stopped, reported = writer.end_offset, Event(), list[int]()

    def progress(end: int) -> None:
        reported.append(end)
        if end == first:
            writer.append(config(TOPIC, "new", "a", "1"))
        elif end == writer.end_offset:
            stopped.set()

    source, store = LogVersions(writer.directory), VersionStore(to)
    added = follow_versions(STAGES, source, store, 1_000_000, progress, stopped, 0.0)
    assert reported == [first, first + 1]
    assert added.versions == sum(map(len, stored(to).values()))
    as_a_node(writer, to)
    again = follow_versions(STAGES, source, store, 1_000_000, progress, stopped, 0.0)
    assert again == Added(0, None, ""), "it was stopped before"
    writer.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_command_that_follows(
    writer: LogWriter, to: Path, number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    write_history(writer)
    writer.close()

    def stop() -> None:
        wait_until(lambda: any(to.glob(f"offsets=*/{MARKER}")), "the first step", 60)
        os.kill(os.getpid(), number)

    stopping = Thread(target=stop)
    stopping.start()
    follow = ["versions", "--log", str(writer.directory), "--to", str(to), "--follow"]
    assert main([*follow, "--every", "0.01"]) == 0
    stopping.join()
    reported = capsys.readouterr()
    assert "stopping" in reported.err
    assert f"offsets 0 to {writer.end_offset}" in reported.out
