"""States and changes of a running quorum: those of its log, read from the leader, at any offset and time that it still has."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from quorum_node.client.committed_log import Committed
from quorum_node.records import metadata as md
from quorum_node.records.batches import Batch
from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.__main__ import main
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.live import live_tasks
from quorum_pipeline.live.controllers import Controllers
from quorum_pipeline.live.live_tasks import LiveSource
from quorum_pipeline.live.quorum import SnapshotDeleted
from quorum_pipeline.spark import timeline_job
from quorum_pipeline.spark.options import changes_options, state_options
from quorum_pipeline.spark.spark_history import JobHistory
from quorum_pipeline.spark.stages import StagesHere
from quorum_pipeline.spark.table_rows import change_rows, state_rows
from quorum_pipeline.state.difference import differences
from quorum_pipeline.state.moment import Moment
from quorum_pipeline.state.tables import TABLES_BY_NAME
from support.replayed_directory import read_whole, replay_directory
from support.timelines import read_timeline
from support.written_log import BEGAN_MS, LogWriter, broker, write_history

CONTROLLERS = Controllers((("h", 1),))
_BATCHES_AT_ONCE = 3


class Leader:
    """Serves the log of a directory, a few batches at a time; records from `end` on are not committed."""

    leader = "h:1"

    def __init__(self, path: Path, end: int) -> None:
        self._log = open_log(path)
        self._end = end

    def committed(self) -> Committed:
        return Committed(self._log.start_offset, self._end)

    def newest_snapshot(self) -> SnapshotId | None:
        return self._log.snapshots[-1] if self._log.snapshots else None

    def snapshot_part(self, id: SnapshotId, position: int) -> tuple[bytes, int]:
        path = self._log.path / id.file_name
        if not path.exists():
            raise SnapshotDeleted(f"h:1 has no snapshot {id}")
        data = path.read_bytes()
        return data[position : position + 500], len(data)

    def read(self, offset: int, end_offset: int, max_bytes: int = 0) -> list[Batch]:
        assert end_offset <= self._end, "records that are not committed were requested"
        spans = self._log.spans(offset, 1 << 30)
        found = [placed.batch for span in spans for placed in read_whole(span)]
        behind = [each for each in found if each.header.end_offset > offset]
        return [e for e in behind[:_BATCHES_AT_ONCE] if e.header.base_offset < end_offset]

    def close(self) -> None:
        """Nothing is open."""


Serve = Callable[[LogWriter, int], None]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    def start(writer: LogWriter, end: int) -> None:
        leader = Leader(writer.directory, end)
        monkeypatch.setattr(Controllers, "open", lambda self: leader)
        monkeypatch.setattr(live_tasks, "MIN_OFFSETS", 7)

    return start


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path / "node", segment_bytes=2_000)


@pytest.mark.requirement("SP-03")
@pytest.mark.parametrize("worth_records", [0, 1 << 30])
def test_state_at_every_batch_and_time_equals_that_of_a_node(
    writer: LogWriter, serve: Serve, worth_records: int
) -> None:
    images = write_history(writer)
    committed = writer.end_offset
    writer.append(md.NoOpRecord())
    writer.close()
    serve(writer, committed)
    with JobHistory(StagesHere(2), LiveSource(CONTROLLERS, worth_records)) as found:
        for number, (offset, expected) in enumerate(images.items()):
            for moment in (Moment(offset=offset), Moment(time_ms=BEGAN_MS + 1000 * number)):
                assert b"".join(found.at(moment).snapshot()) == expected
                assert found.one_by_one == (worth_records > 0)
        assert found.at(Moment()).end_offset == committed
        assert len(found.done) > 3
        assert sum(each.summary.records for each in found.done) == committed
        before, after = (
            replay_directory(writer.directory, Moment(offset=each)) for each in (12, 50)
        )
        assert list(found.differences(12, 50)) == list(differences(before, after))
        with pytest.raises(
            PipelineError,
            match=f"the quorum at h:1 has states at offsets 0 to {committed}, not {committed + 1}",
        ):
            found.at(Moment(offset=committed + 1))


@pytest.mark.requirement("SP-03")
@pytest.mark.parametrize("worth_records", [0, 1 << 30])
def test_log_that_begins_later_is_continued_from_the_snapshot(
    writer: LogWriter, serve: Serve, worth_records: int
) -> None:
    write_history(writer)
    named = writer.snapshot(drop_log=True)
    time_ms = writer.time_ms - 1000
    writer.elect(3)
    expected = writer.image_bytes()
    writer.close()
    serve(writer, writer.end_offset)
    source = LiveSource(CONTROLLERS, worth_records)
    with JobHistory(StagesHere(2), source) as found:
        assert b"".join(found.at(Moment()).snapshot()) == expected
        assert found.at(Moment(offset=named.end_offset)).end_offset == named.end_offset
        assert found.at(Moment(time_ms=time_ms)).end_offset == named.end_offset
        for early in (Moment(offset=named.end_offset - 1), Moment(time_ms=time_ms - 1)):
            with pytest.raises(
                PipelineError, match=f"no state before offset {named.end_offset}, where its snap"
            ):
                found.at(early)


@pytest.mark.parametrize("worth_records", [0, 1 << 30])
def test_snapshot_with_a_record_later_than_the_time_gives_no_state(
    writer: LogWriter, serve: Serve, worth_records: int
) -> None:
    """The clock of the second leader was behind: the last record of the snapshot is not its latest one."""
    write_history(writer)
    writer.snapshot(drop_log=True)
    begin = writer.time_ms
    for at_ms in (begin, begin + 3_000, begin + 1_000):
        writer.time_ms = at_ms
        writer.append(md.NoOpRecord())
    named = writer.snapshot()
    writer.time_ms = begin + 5_000
    writer.elect(3)
    writer.close()
    assert 0 < open_log(writer.directory).start_offset < named.end_offset
    serve(writer, writer.end_offset)
    with JobHistory(StagesHere(2), LiveSource(CONTROLLERS, worth_records)) as found:
        assert found.at(Moment(time_ms=begin + 3_000)).end_offset == named.end_offset
        for early in (begin + 1_000, begin + 2_000, begin + 2_999):
            with pytest.raises(PipelineError, match=f"no state before offset {named.end_offset}"):
                found.at(Moment(time_ms=early))


@pytest.mark.parametrize("worth_records", [0, 1 << 30])
def test_snapshot_deleted_after_the_reading_was_planned_is_replaced_by_the_newer_one(
    writer: LogWriter, serve: Serve, monkeypatch: pytest.MonkeyPatch, worth_records: int
) -> None:
    write_history(writer)
    first = writer.snapshot(drop_log=True)
    writer.elect(3)
    serve(writer, writer.end_offset)
    plan = LiveSource.plan

    def and_then_deleted(self: LiveSource, *given: Any, **more: Any) -> Any:
        found = plan(self, *given, **more)
        path = writer.directory / first.file_name
        if found is not None and path.exists():
            writer.elect(4)
            writer.snapshot(drop_log=True)
            path.unlink(missing_ok=True)
            serve(writer, writer.end_offset)
        return found

    monkeypatch.setattr(LiveSource, "plan", and_then_deleted)
    with JobHistory(StagesHere(2), LiveSource(CONTROLLERS, worth_records)) as found:
        assert b"".join(found.at(Moment()).snapshot()) == writer.image_bytes()
        assert found.one_by_one == (worth_records > 0)
    writer.close()


def test_contradiction_is_reported_with_the_quorum_and_the_offset(
    writer: LogWriter, serve: Serve
) -> None:
    write_history(writer)
    offset = writer.end_offset
    gone = md.PartitionChangeRecord(partition_id=5, topic_id=md.LOST, leader=1)
    writer.append_bytes([md.encode_metadata(gone)])
    writer.close()
    serve(writer, writer.end_offset)
    with (
        JobHistory(StagesHere(2), LiveSource(CONTROLLERS, 0)) as found,
        pytest.raises(PipelineError, match=f"^the quorum at h:1, offset {offset}: a change of"),
    ):
        found.at(Moment())


@pytest.mark.requirement("SP-03")
def test_commands_and_sources_take_a_running_quorum(
    writer: LogWriter, serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = write_history(writer)
    writer.close()
    serve(writer, writer.end_offset)
    live = ["--bootstrap", "h:1"]
    offset = sorted(images)[-2]
    at = [*live, "--at-offset", str(offset)]
    assert main(["state", *at, "--snapshot", str(tmp_path / "snapshots")]) == 0
    assert f"state at offset {offset}" in capsys.readouterr().out
    assert [path.read_bytes() for path in (tmp_path / "snapshots").iterdir()] == [images[offset]]
    assert main(["diff", *live, "--from", "10", "--to", "52", "--json"]) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    assert json.loads(first)["after"]["leader"] == 2
    assert main(["plan", *at, "--output", str(tmp_path / "plan.json")]) == 0
    assert main(["restore", *at, "--output", str(tmp_path / "new"), "--voter", "1@h:9"]) == 0
    assert f"restored offset {offset}" in capsys.readouterr().out
    given = {"bootstrap": "h:1", "table": "topics"}
    topics = list(state_rows(state_options({**given, "versionAsOf": "52"})))
    expected = replay_directory(writer.directory, Moment(offset=52))
    assert topics == list(expected.rows(TABLES_BY_NAME["topics"]))
    (gone,) = change_rows(changes_options({**given, "startingVersion": "52"}))
    assert (gone["name"], gone["_change_type"]) == ("orders", "delete")


@pytest.mark.parametrize("command", ["state", "restore", "plan", "diff", "timeline", "versions"])
def test_credentials_are_for_connections(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LogWriter(tmp_path / "node").close()
    more = {
        "state": [],
        "restore": ["--output", str(tmp_path / "o"), "--voter", "1@h:9"],
        "plan": ["--output", str(tmp_path / "p.json")],
        "diff": ["--from", "0", "--to", "0"],
        "timeline": [],
        "versions": ["--to", str(tmp_path / "v")],
    }
    given = [command, "--log", str(tmp_path / "node"), "--tls", "/tls", *more[command]]
    assert main(given) == 2
    assert (
        "--tls, --command-config and --replicas apply only to --bootstrap"
        in capsys.readouterr().err
    )


@pytest.mark.requirement("SP-05", "SP-03")
@pytest.mark.parametrize("drop_log", [False, True])
def test_timeline_and_versions_equal_those_of_the_log(
    writer: LogWriter, serve: Serve, tmp_path: Path, drop_log: bool
) -> None:
    write_history(writer)
    if drop_log:
        writer.snapshot(drop_log=True)
    writer.elect(3)
    writer.append(broker(9), md.NoOpRecord())
    writer.close()
    serve(writer, writer.end_offset)
    stages = StagesHere(2)
    found = timeline_job.read_timeline(stages, timeline_job.quorum_source(CONTROLLERS, 2, tmp_path))
    assert found.events == read_timeline(writer.directory).events
    start = open_log(writer.directory).start_offset
    assert (found.start_offset, found.end_offset) == (start, writer.end_offset)
    assert (start > 0) == drop_log
    log, live = (["versions", *source, "--to"] for source in (
        ["--log", str(writer.directory)], ["--bootstrap", "h:1"],
    ))  # fmt: skip
    assert main([*log, str(tmp_path / "of the log")]) == 0
    assert main([*live, str(tmp_path / "live")]) == 0
    assert rows_in(tmp_path / "live") == rows_in(tmp_path / "of the log") != []


def rows_in(versions: Path) -> list[str]:
    paths = versions.glob("offsets=*/*/*.parquet")
    return sorted(repr(row) for path in paths for row in pq.read_table(path).to_pylist())
