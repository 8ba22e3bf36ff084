"""The state at any offset, from the log or from a snapshot and the log behind it, is what a node had there."""

import json
from pathlib import Path
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_node.image.committed import CommittedImage
from quorum_node.image.resource_types import TOPIC
from quorum_node.records import metadata as md
from quorum_node.records.control import KRaftVersion, VotersRecord, encode_control
from quorum_node.records.metadata import decode_metadata, encode_metadata
from quorum_node.records.snapshot_format import SnapshotBounds, SnapshotReader, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.__main__ import main
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.spark.spark_history import DirectorySource, JobHistory
from quorum_pipeline.spark.stages import StagesHere
from quorum_pipeline.spark.state_job import SparkState
from quorum_pipeline.state.difference import differences
from quorum_pipeline.state.log_record import LogRecord
from quorum_pipeline.state.moment import Moment, parsed_time_ms
from quorum_pipeline.state.tables import STATE_TABLES, Row
from support.metadata_histories import histories
from support.metadata_records import config
from support.replayed_directory import replay_directory
from support.replayed_state import Replayed
from support.written_archive import write_archive
from support.written_log import (
    BEGAN_MS,
    TOPIC_ID,
    LogWriter,
    broker,
    partition,
    voter,
    write_history,
)


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, dict[int, bytes]]:
    writer = LogWriter(tmp_path / "node", segment_bytes=800)
    images = write_history(writer)
    writer.close()
    return writer.directory, images


def by_jobs(path: Path, moment: Moment, slots: int = 1) -> SparkState:
    """As the commands have it, in this process."""
    with JobHistory(StagesHere(slots), DirectorySource(path)) as history:
        return history.at(moment)


def snapshot_at(path: Path, offset: int, parallel_stages: int = 1) -> bytes:
    state = by_jobs(path, Moment(offset=offset), parallel_stages)
    return b"".join(state.snapshot())


def rows(state: Replayed, name: str) -> list[Row]:
    return list(next(table for table in STATE_TABLES if table.name == name).rows(state))


def test_state_at_every_batch_equals_that_of_a_node(
    written: tuple[Path, dict[int, bytes]],
) -> None:
    path, images = written
    assert len(images) == 10
    for offset, expected in images.items():
        assert snapshot_at(path, offset) == expected, f"offset {offset}"
        assert snapshot_at(path, offset, 3) == expected, f"offset {offset}, read side by side"


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(histories(), st.data())
def test_replay_record_by_record_gives_the_image_of_the_node(
    values: list[bytes], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(values)))
    state, image = Replayed(), CommittedImage()
    state.records(LogRecord(n, 1, 5, False, None, value) for n, value in enumerate(values[:cut]))
    image.replay(map(decode_metadata, values[:cut]))
    assert state.image == image.image
    assert state.in_transaction == image.in_transaction
    if image.is_whole and cut:
        expected = encode_snapshot(state.id, SnapshotBounds(5, 1), image.image.snapshot_records())
        assert b"".join(state.snapshot()) == b"".join(expected)
    elif cut:
        with pytest.raises(PipelineError, match=r"transaction is open|not known"):
            list(state.snapshot())


@pytest.mark.parametrize("parallel_stages", [1, 3])
def test_contradicting_record_is_reported_with_file_and_offset(
    tmp_path: Path, parallel_stages: int
) -> None:
    writer = LogWriter(tmp_path, segment_bytes=300)
    write_history(writer)
    wrong = writer.end_offset
    change = md.PartitionChangeRecord(partition_id=7, topic_id=UUID(int=1), leader=1)
    writer.append_bytes([md.encode_metadata(change)])
    writer.elect(3)
    writer.close()
    path = max(each for each in writer.directory.glob("*.log") if int(each.stem) <= wrong)
    with pytest.raises(PipelineError, match=rf"{path}, offset {wrong}: a change of partition"):
        by_jobs(writer.directory, Moment(), parallel_stages)
    assert by_jobs(writer.directory, Moment(offset=wrong)).end_offset == wrong


def test_only_earlier_records_count_within_a_batch(written: tuple[Path, dict[int, bytes]]) -> None:
    path, _ = written
    begin = 1 + 2 + 1 + 3 + 3
    for more in (0, 1, 17, 40):
        state = replay_directory(path, Moment(offset=begin + more))
        assert len(rows(state, "configs")) == more
        assert state.end_offset == begin + more


def test_state_from_a_snapshot_and_the_following_log(tmp_path: Path) -> None:
    """The log begins after the snapshot; earlier records are reported as deleted."""
    writer = LogWriter(tmp_path, segment_bytes=300)
    write_history(writer)
    begins = writer.snapshot(drop_log=True)
    images = {begins.end_offset: writer.image_bytes()}
    later = writer.elect(3)
    images[later] = writer.image_bytes()
    writer.close()
    for offset, expected in images.items():
        assert snapshot_at(writer.directory, offset) == expected
    with pytest.raises(
        PipelineError, match=rf"no state at offset 3: .* snapshots at {begins.end_offset}"
    ):
        replay_directory(writer.directory, Moment(offset=3))


def test_newest_snapshot_not_above_the_offset_is_used(tmp_path: Path) -> None:
    """With the whole log beside it a snapshot only saves time; without, it has to be the right one."""
    writer = LogWriter(tmp_path, segment_bytes=300)
    images = write_history(writer)
    early = writer.snapshot()
    early_ms = writer.time_ms - 1000
    writer.append(config(TOPIC, "other", "a", "1"))
    for offset in (early.end_offset - 1, early.end_offset):
        state = replay_directory(writer.directory, Moment(offset=offset))
        assert state.end_offset == offset
        assert offset not in images or b"".join(state.snapshot()) == images[offset]
    state = replay_directory(writer.directory, Moment(time_ms=early_ms - 1))
    assert state.end_offset == sorted(images)[-2]
    assert replay_directory(writer.directory, Moment(time_ms=early_ms)).id == early
    with pytest.raises(PipelineError, match=r"no state at offset -1"):
        replay_directory(writer.directory, Moment(offset=-1))
    for number in range(5):
        after = writer.append(config(TOPIC, "other", "a", "1" * 100 + str(number)))
    late = writer.snapshot(drop_log=True)
    writer.close()
    assert open_log(writer.directory).start_offset > early.end_offset
    state = replay_directory(writer.directory, Moment())
    assert (state.end_offset, state.id) == (after, late)


def told_voters(*records: VotersRecord) -> VotersRecord | None:
    """Those in the snapshot that the state behind them gives."""
    state = Replayed()
    for offset, record in enumerate(records):
        encoded = encode_control(record)
        state.records([LogRecord(offset, 1, 5, True, encoded.key, encoded.value or b"")])
    reader = SnapshotReader(state.id)
    for data in state.snapshot():
        reader.feed(data)
    return reader.finish().voters


def test_shrunken_quorum_counts_as_formed() -> None:
    """A new replica would otherwise wait for voters that were removed since."""
    voters = tuple(voter(number, 100 + number) for number in (1, 2, 3))
    whole, shrunk = VotersRecord(voters, "c", 3), VotersRecord(voters[:2], "c", 3)
    for records, needed in (((whole,), 3), ((shrunk,), 3), ((whole, shrunk), 2)):
        found = told_voters(*records)
        assert found is not None
        assert found.initial_voters == needed


def test_kraft_version_comes_from_the_log_or_the_snapshot() -> None:
    """A static quorum of stock Kafka has none."""
    encoded = encode_control(KRaftVersion(0))
    state = Replayed()
    state.records([LogRecord(0, 1, 5, True, encoded.key, encoded.value or b"")])
    assert state.kraft_version == 0
    state = Replayed()
    state.begin(SnapshotId(7, 2), [], SnapshotBounds(5, 2, VotersRecord((voter(1, 101),), "c")))
    assert (state.end_offset, state.epoch, state.kraft_version) == (7, 2, 2)


def test_snapshot_error_is_reported_with_its_file_name(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=200)
    for number in range(6):
        writer.append(config(TOPIC, "t", "k" * 100, str(number)))
    named = writer.snapshot(drop_log=True)
    writer.append(config(TOPIC, "t", "k", "last"))
    writer.close()
    change = encode_metadata(md.PartitionChangeRecord(partition_id=0, topic_id=UUID(int=5)))
    whole = b"".join(encode_snapshot(named, SnapshotBounds(BEGAN_MS, 1, None), [change]))
    (writer.directory / named.file_name).write_bytes(whole)
    with pytest.raises(
        PipelineError, match=rf"{named.file_name}, offset \d: a change of partition"
    ):
        by_jobs(writer.directory, Moment())


def test_truncated_snapshot_is_reported_with_its_position(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=300)
    write_history(writer)
    named = writer.snapshot(drop_log=True)
    writer.close()
    path = writer.directory / named.file_name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(PipelineError, match=rf"{named.file_name}, byte \d+: "):
        by_jobs(writer.directory, Moment())


@pytest.mark.parametrize("parallel_stages", [1, 2])
def test_damage_does_not_affect_earlier_records(tmp_path: Path, parallel_stages: int) -> None:
    writer = LogWriter(tmp_path / "node")
    images = write_history(writer)
    writer.close()
    *_, before, last = images
    (segment,) = writer.directory.glob("*.log")
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)

    def state(offset: int | None) -> SparkState:
        return by_jobs(writer.directory, Moment(offset), parallel_stages)

    assert b"".join(state(before).snapshot()) == images[before]
    with pytest.raises(PipelineError, match=rf"{segment.name}.*offset {before}"):
        state(None)
    assert last > before


def test_missing_or_duplicate_records_are_rejected() -> None:
    for numbers in ((0, 2), (0, 0), (1,)):
        with pytest.raises(PipelineError, match="is expected"):
            Replayed().records(LogRecord(n, 1, 5, False, None, b"\1\x14\0\0") for n in numbers)


def test_state_tables(written: tuple[Path, dict[int, bytes]]) -> None:
    path, images = written
    before_removal = sorted(images)[-2]
    state = replay_directory(path, Moment(offset=before_removal))
    assert [row["rack"] for row in rows(state, "brokers")] == ["a", "b", "c"]
    assert [row["replicas"] for row in rows(state, "brokers")] == [2, 2, 2]
    (topic,) = rows(state, "topics")
    assert (topic["name"], topic["partitions"]) == ("orders", 2)
    first, second = rows(state, "partitions")
    assert (first["leader"], first["isr"], first["leader_epoch"]) == (2, [2, 3], 1)
    assert (second["leader"], second["isr"], second["partition_id"]) == (2, [2, 3, 1], 1)
    assert len(rows(state, "configs")) == 40
    assert [row["id"] for row in rows(state, "voters")] == [2, 3, 1]
    assert rows(state, "features") == [{"name": "metadata.version", "level": 27}]
    assert state.leader_id == 2
    for table in STATE_TABLES:
        found = list(table.rows(state))
        assert all(list(row) == list(table.columns) for row in found)
        assert table.count(state) == len(found)


def test_state_tables_of_a_degraded_cluster(tmp_path: Path) -> None:
    """What most clusters have none of, most of the time."""
    writer = LogWriter(tmp_path)
    writer.append(*(broker(number) for number in (1, 2, 3)))
    writer.append(md.TopicRecord(name="orders", topic_id=TOPIC_ID), partition(0, (1, 2, 3)))
    writer.append(md.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=1))
    change = md.PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC_ID, leader=2, isr=(2,), leader_recovery_state=md.RECOVERING,
        adding_replicas=(3,), removing_replicas=(1,),
    )  # fmt: skip
    acl = md.AccessControlEntryRecord(
        id=UUID(int=9), resource_type=2, resource_name="orders", pattern_type=4, principal="User:a",
        host="*", operation=5, permission_type=3,
    )  # fmt: skip
    parts = (
        md.QuotaEntity(entity_type="user", entity_name=None),
        md.QuotaEntity(entity_type="ip", entity_name="b"),
    )
    quota = md.ClientQuotaRecord(entity=parts, key="rate", value=1.5, remove=False)
    writer.append(change, acl, quota)
    writer.close()
    state = replay_directory(writer.directory, Moment())
    assert [row["fenced"] for row in rows(state, "brokers")] == [True, False, False]
    (found,) = rows(state, "partitions")
    assert (found["adding_replicas"], found["removing_replicas"]) == ([3], [1])
    assert (found["recovering"], found["isr"], found["replicas"]) == (True, [2], [1, 2, 3])
    (entry,) = rows(state, "acls")
    numbers = [entry[n] for n in ("resource_type", "pattern_type", "operation", "permission_type")]
    assert numbers == [2, 4, 5, 3]
    ((entity, value),) = ((row["entity"], row["value"]) for row in rows(state, "quotas"))
    assert (set(str(entity).split(",")), value) == ({"user=<default>", "ip=b"}, 1.5)


def test_state_at_a_time_ends_with_the_last_record_up_to_it(
    written: tuple[Path, dict[int, bytes]],
) -> None:
    path, images = written
    ends = sorted(images)
    assert replay_directory(path, Moment(time_ms=BEGAN_MS + 3_999)).end_offset == ends[3]
    assert replay_directory(path, Moment(time_ms=BEGAN_MS + 4_000)).end_offset == ends[4]
    assert replay_directory(path, Moment(time_ms=0)).end_offset == 0
    assert parsed_time_ms("2023-11-14T23:13:20.5+01:00") == BEGAN_MS + 500
    assert parsed_time_ms("2023-11-14T22:13:20") == BEGAN_MS
    with pytest.raises(PipelineError, match="is not a valid time"):
        parsed_time_ms("yesterday")


def test_state_differences(written: tuple[Path, dict[int, bytes]]) -> None:
    path, images = written
    ends = sorted(images)
    before, after = (replay_directory(path, Moment(offset=ends[n])) for n in (5, 8))
    found = {(each.table, each.kind, each.fields) for each in differences(before, after)}
    assert found == {
        ("partitions", "changed", ("leader", "leader_epoch", "partition_epoch", "isr")),
        ("voters", "added", ()),
        ("voters", "removed", ()),
    }
    assert list(differences(after, after)) == []


def test_difference_as_text_and_json(
    written: tuple[Path, dict[int, bytes]], capsys: pytest.CaptureFixture[str]
) -> None:
    path, images = written
    begin, end = (sorted(images)[n] for n in (5, 6))
    arguments = ["diff", "--log", str(path), "--from", str(begin), "--to", str(end)]
    assert main(arguments) == 0
    line, summary = capsys.readouterr().out.splitlines()
    assert line.startswith("changed partitions ")
    assert "leader: 1 -> 2; " in line
    assert "isr: [1, 2, 3] -> [2, 3]" in line
    assert summary == f"from offset {begin} to {end}: 1 changed in partitions"
    assert main([*arguments, "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["before"]["leader"], output["after"]["leader"]) == (1, 2)


def test_state_commands(
    written: tuple[Path, dict[int, bytes]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, images = written
    offset = sorted(images)[6]
    out, snapshots = tmp_path / "tables", tmp_path / "restored"
    arguments = ["state", "--log", str(path), "--at-offset", str(offset)]
    assert main([*arguments, "--output", str(out), "--snapshot", str(snapshots)]) == 0
    assert f"state at offset {offset}, epoch 2" in capsys.readouterr().out
    assert [each.read_bytes() for each in snapshots.iterdir()] == [images[offset]]
    assert pq.read_table(out / "configs.parquet").num_rows == 40
    assert pq.read_table(out / "partitions.parquet").to_pylist()[0]["leader"] == 2
    assert main([*arguments, "--show", "topics"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "orders"
    assert main(["diff", "--log", str(path), "--from", "0", "--to", str(offset)]) == 0
    assert "40 added in configs" in capsys.readouterr().out
    assert main(["state", "--log", str(path), "--at-offset", "999"]) == 2
    assert "it has offsets 0 to" in capsys.readouterr().err
    assert main([*arguments, "--output", str(out)]) == 2
    assert "already exists" in capsys.readouterr().err


@pytest.mark.parametrize("time_ms", [1 << 60, -(1 << 60)])
def test_time_outside_of_the_calendar_is_shown_as_a_number(
    time_ms: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A controller's clock may be wrong."""
    writer = LogWriter(tmp_path / "node")
    writer.time_ms = time_ms
    write_history(writer)
    writer.close()
    log = ["--log", str(tmp_path / "node")]
    assert main(["state", *log]) == 0
    assert f"{time_ms + 9_000} ms after 1970" in capsys.readouterr().out
    assert main(["versions", *log, "--to", str(tmp_path / "versions")]) == 0
    (path,) = (tmp_path / "versions").glob("offsets=*/features/*.parquet")
    assert pq.read_table(path).column("valid_from_time").to_pylist() == [None]


def test_nothing_is_written_into_the_directory_of_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node would take a snapshot there for its own."""
    writer = LogWriter(tmp_path / "node")
    write_history(writer)
    writer.close()
    before = sorted(tmp_path.rglob("*"))
    for inside in (writer.directory, tmp_path / "node", tmp_path / "node" / "new"):
        for command in (["state", "--snapshot"], ["state", "--output"], ["versions", "--to"]):
            assert main([*command, str(inside), "--log", str(tmp_path / "node")]) == 2
            assert "which must not be changed: use another" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_nothing_is_written_into_an_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = LogWriter(tmp_path / "node")
    write_history(writer)
    writer.close()
    root = tmp_path / "archive"
    write_archive(root, writer.directory, 0, writer.end_offset)
    before = sorted(tmp_path.rglob("*"))
    for command in (["state", "--output"], ["versions", "--to"]):
        assert main([*command, str(root / "new"), "--archive", str(root)]) == 2
        assert f"is inside the directory of the archive {root}" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_files_of_a_result_are_checked_before_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log that does not exist shows that nothing was read."""
    nowhere = ["--log", str(tmp_path / "no log")]
    for command in ("timeline --html", "timeline --parquet", "plan --output"):
        for path, says in (
            (tmp_path / "no" / "file", f"{tmp_path}/no is not a directory: create it first"),
            (tmp_path, f"{tmp_path} is a directory; specify a file"),
        ):
            assert main([*command.split(), str(path), *nowhere]) == 2
            assert says in capsys.readouterr().err
