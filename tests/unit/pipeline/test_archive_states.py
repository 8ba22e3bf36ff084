"""Deltas and whole states in an archive: the same states, and a question costs what changed since the last one. In this process, by the same functions as on Spark."""

import json
import shutil
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from quorum_node.records import metadata as md
from quorum_pipeline.archive.layout import DELTAS, MARKER, RECORDS, STATES, Marker, OffsetRange
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.archive_tasks import ArchiveSource, states
from quorum_pipeline.files.delta_builder import parsed_part
from quorum_pipeline.files.local_files import LocalFiles
from quorum_pipeline.spark.spark_history import DirectorySource, JobHistory
from quorum_pipeline.spark.stages import StagesHere
from quorum_pipeline.spark.stored_states import compose_deltas, expire_states, keep_state
from quorum_pipeline.state.difference import differences
from quorum_pipeline.state.moment import Moment
from quorum_pipeline.state.tables import TABLES_BY_NAME
from support.replayed_directory import replay_directory
from support.timelines import archived_timeline
from support.written_archive import write_archive
from support.written_log import BEGAN_MS, TOPIC_ID, LogWriter, partition, write_history

STAGES = StagesHere(2)


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path / "node", segment_bytes=2_000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "an archive"


def reader(root: Path) -> ArchiveReader:
    return ArchiveReader(LocalFiles(), str(root))


def history(root: Path, scratch: Path) -> JobHistory:
    return JobHistory(STAGES, ArchiveSource(reader(root), scratch))


def kept(root: Path, least_rows: int = 1) -> int | None:
    return keep_state(STAGES, reader(root), least_rows)


@pytest.mark.requirement("SP-03")
def test_state_at_every_batch_and_time_equals_that_of_a_node(
    writer: LogWriter, root: Path, tmp_path: Path
) -> None:
    images = write_history(writer)
    writer.close()
    end = writer.end_offset
    write_archive(root, writer.directory, 0, 7, 30, deltas=True)
    assert kept(root) == 30
    write_archive(root, writer.directory, 30, end, deltas=True)
    with history(root, tmp_path) as found:
        for number, (offset, expected) in enumerate(images.items()):
            for moment in (Moment(offset=offset), Moment(time_ms=BEGAN_MS + 1000 * number)):
                state = found.at(moment)
                assert b"".join(state.snapshot()) == expected
                assert not found.one_by_one
                assert sum(each.summary.records for each in found.done) == (
                    offset - 30 if offset >= 30 else offset
                ), "only records after the state"
        for start, stop in ((0, end), (7, 40), (35, end)):
            before, after = (
                replay_directory(writer.directory, Moment(offset=each)) for each in (start, stop)
            )
            assert list(found.differences(start, stop)) == list(differences(before, after))
        with pytest.raises(PipelineError, match=f"has offsets 0 to {end}, not {end + 1}"):
            found.at(Moment(offset=end + 1))


def growing(root: Path, writer: LogWriter, rounds: int) -> None:
    """Fifty partitions that go on changing, in ranges of three hundred records, and states by the way."""
    for _ in range(rounds):
        start = writer.end_offset
        for number in range(30):
            writer.append(
                *(
                    md.PartitionChangeRecord(
                        partition_id=n % 50, topic_id=TOPIC_ID, leader=number % 3
                    )
                    for n in range(10)
                )
            )
        write_archive(root, writer.directory, start, writer.end_offset, deltas=True)
        kept(root, 20)


@pytest.mark.requirement("SP-03")
def test_query_cost_is_proportional_to_changes_since_the_last_state(
    writer: LogWriter, root: Path, tmp_path: Path
) -> None:
    writer.append(md.TopicRecord(name="t", topic_id=TOPIC_ID))
    writer.append(*(partition(number, (1, 2)) for number in range(50)))
    write_archive(root, writer.directory, 0, writer.end_offset, deltas=True)
    read = []
    for _ in range(3):
        growing(root, writer, 4)
        with history(root, tmp_path) as found:
            state = found.at(Moment())
            read.append(found.rows_read)
            expected = replay_directory(writer.directory, Moment())
            assert b"".join(state.snapshot()) == b"".join(expected.snapshot())
        assert sum(1 for _ in states(reader(root))) > 1
    assert max(read) <= 220 < writer.end_offset / 8
    assert max(read) <= 1.3 * min(read) + 60
    writer.close()


def test_cost_of_any_offset_does_not_depend_on_the_length_of_the_archive(
    writer: LogWriter, root: Path, tmp_path: Path
) -> None:
    """Of twenty offsets by chance in archives of 4 and 16 ranges: the mean, and the most."""
    writer.append(md.TopicRecord(name="t", topic_id=TOPIC_ID))
    writer.append(*(partition(number, (1, 2)) for number in range(50)))
    write_archive(root, writer.directory, 0, writer.end_offset, deltas=True)
    state_rows, rng, means = writer.end_offset, Random(18), list[float]()
    for rounds in (4, 12):
        growing(root, writer, rounds)
        read = []
        with history(root, tmp_path) as found:
            for offset in rng.sample(range(writer.end_offset), 20):
                assert found.at(Moment(offset=offset)).end_offset == offset
                assert not found.one_by_one
                read.append(found.rows_read)
        assert max(read) <= 20 * state_rows
        means.append(sum(read) / len(read))
    assert max(means) <= 1.3 * min(means), means
    writer.close()


def merge_all(root: Path, group: list[OffsetRange], end: int) -> int:
    """Merge these ranges, which are all, as `archive --compact`; return the number of rows of the deltas."""
    merged = OffsetRange(0, end)
    rows = compose_deltas(STAGES, reader(root), group, merged)
    for each in group:
        for path in (root / RECORDS / each.directory).glob("*.parquet"):
            (root / RECORDS / merged.directory).mkdir(exist_ok=True)
            path.rename(root / RECORDS / merged.directory / f"{each.directory}-{path.name}")
    marker = {"rows": end, "quarantined": 0, "delta_rows": rows}
    (root / RECORDS / merged.directory / MARKER).write_text(json.dumps(marker))
    for each in group:
        shutil.rmtree(root / RECORDS / each.directory)
    return rows


@pytest.mark.requirement("SP-03")
def test_adjacent_deltas_are_composed(writer: LogWriter, root: Path, tmp_path: Path) -> None:
    images = write_history(writer)
    writer.close()
    end = writer.end_offset
    borders = [0, 7, 20, 30, 45, end]
    write_archive(root, writer.directory, *borders, deltas=True)
    before = sum(1 for _ in (root / DELTAS).glob("*/*.parquet"))
    rows = merge_all(root, reader(root).ranges(), end)
    composed = list((root / DELTAS / OffsetRange(0, end).directory).glob("*.parquet"))
    assert 0 < len(composed) < before
    with history(root, tmp_path) as found:
        assert b"".join(found.at(Moment()).snapshot()) == images[end]
        assert not found.one_by_one
        assert found.rows_read == rows < end


def test_deltas_are_not_composed_across_a_state(
    writer: LogWriter, root: Path, tmp_path: Path
) -> None:
    """The records behind the state would have to be read instead."""
    images = write_history(writer)
    writer.close()
    end = writer.end_offset
    write_archive(root, writer.directory, 0, 7, 20, 30, deltas=True)
    assert kept(root) == 30
    written = write_archive(root, writer.directory, 30, 45, end, deltas=True)
    merge_all(root, [*reader(root).ranges()], end)
    assert not any(each.exists() for each in written)
    composed = (root / DELTAS / OffsetRange(0, end).directory).glob("*.parquet")
    assert sorted(filter(None, (parsed_part(each.name) for each in composed))) == [
        (0, 30),
        (30, end),
    ]
    with history(root, tmp_path) as found:
        assert b"".join(found.at(Moment()).snapshot()) == images[end]
        assert all(each.summary.start_offset >= 30 for each in found.done)


@pytest.mark.requirement("SP-02", "SP-03")
def test_incomplete_deltas_are_ignored(writer: LogWriter, root: Path, tmp_path: Path) -> None:
    images = write_history(writer)
    writer.close()
    end = writer.end_offset
    write_archive(root, writer.directory, 0, 30, end, deltas=True)
    assert kept(root) == end
    assert kept(root) is None, "a state was written although no records are new"
    (state,) = (root / STATES).iterdir()
    (state / MARKER).rename(tmp_path / "marker")
    for path in (root / DELTAS).glob(f"{OffsetRange(30, end).directory}/*"):
        path.unlink()
    with history(root, tmp_path) as found:
        assert b"".join(found.at(Moment()).snapshot()) == images[end]
        records = found.rows_read
    (tmp_path / "marker").rename(state / MARKER)
    with history(root, tmp_path) as found:
        assert b"".join(found.at(Moment()).snapshot()) == images[end]
        assert sum(each.summary.records for each in found.done) == 0 < records
    (state / MARKER).write_text("{")
    with (
        history(root, tmp_path) as found,
        pytest.raises(PipelineError, match="_COMPLETE is damaged"),
    ):
        found.at(Moment())


@pytest.mark.requirement("SP-02")
def test_damaged_delta_is_detected_and_records_give_the_same_state(
    writer: LogWriter, root: Path, tmp_path: Path
) -> None:
    images = write_history(writer)
    writer.close()
    write_archive(root, writer.directory, 0, writer.end_offset, deltas=True)
    path = next((root / DELTAS).glob("*/*.parquet"))
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    with history(root, tmp_path) as found:
        assert b"".join(found.at(Moment()).snapshot()) == images[writer.end_offset]
        assert not found.one_by_one, "only the records of this delta are read instead"
        assert sum(each.summary.records for each in found.done) == writer.end_offset


@pytest.mark.requirement("SP-02")
def test_damaged_state_is_replaced_by_deltas(writer: LogWriter, root: Path, tmp_path: Path) -> None:
    images = write_history(writer)
    writer.close()
    end = writer.end_offset
    write_archive(root, writer.directory, 0, 30, deltas=True)
    assert kept(root) == 30
    write_archive(root, writer.directory, 30, end, deltas=True)
    path = max((root / STATES).glob("*/*.parquet"))
    path.write_bytes(path.read_bytes()[:-1])
    with history(root, tmp_path) as found:
        assert b"".join(found.at(Moment()).snapshot()) == images[end]
        assert not found.one_by_one
        assert found.damaged == {f"{STATES}/{path.parent.name}/{path.name}"}
        assert f"{path.name} is damaged, others were read" in found.how()
        assert sum(each.summary.records for each in found.done) == end


def refused(root: Path, scratch: Path, moment: Moment) -> str:
    """Why there is no such state, and no timeline either."""
    with history(root, scratch) as found, pytest.raises(PipelineError) as reported:
        found.at(moment)
    with pytest.raises(PipelineError) as of_timeline:
        archived_timeline(root, STAGES)
    assert "\n" not in f"{reported.value}{of_timeline.value}"
    assert str(of_timeline.value).partition(",")[0].partition(": ")[0] in str(reported.value)
    return str(reported.value)


@pytest.mark.requirement("SP-02")
def test_records_replace_a_delta_that_cannot_be_opened(
    writer: LogWriter, root: Path, tmp_path: Path
) -> None:
    """As while another process merges deltas: it is deleted after the query was planned."""
    images = write_history(writer)
    writer.close()
    write_archive(root, writer.directory, 0, writer.end_offset, deltas=True)
    path = next((root / DELTAS).glob("*/*.parquet"))
    path.unlink()
    path.mkdir()
    with history(root, tmp_path) as found:
        assert b"".join(found.at(Moment()).snapshot()) == images[writer.end_offset]
        assert not found.one_by_one, "only the records of this delta are read instead"
        assert sum(each.summary.records for each in found.done) == writer.end_offset


@pytest.mark.requirement("SP-02")
@pytest.mark.parametrize("number", [0, 1, 2])
def test_range_with_a_missing_file_is_reported(root: Path, tmp_path: Path, number: int) -> None:
    """The first, one in the middle, or the last: without it the state would be an older one."""
    writer = LogWriter(tmp_path / "node", segment_bytes=1)
    for count in range(3):
        writer.append(*(md.NoOpRecord() for _ in range(1 + count)))
    writer.close()
    (only,) = write_archive(root, writer.directory, 0, 6)
    (lost,) = only.glob(f"part-{number}-0.*.parquet")
    lost.unlink()
    message = f"{only} has {5 - number} records, and its marker says 6"
    assert refused(root, tmp_path, Moment()).startswith(message)
    (only / MARKER).write_text(Marker(5 - number, 0).text())
    message = {
        0: "offset 0: offset 1 where 0 is expected",
        1: "offset 1: offset 3 where 1 is expected",
        2: "offset 3: the records from offset 3 to 6 are missing",
    }[number]
    assert refused(root, tmp_path, Moment()).startswith(f"{only}, {message}")


@pytest.mark.requirement("SP-02")
def test_archive_with_a_missing_beginning_is_reported(
    writer: LogWriter, root: Path, tmp_path: Path
) -> None:
    images = write_history(writer)
    writer.close()
    end = writer.end_offset
    first, *_ = write_archive(root, writer.directory, 0, 7, 30, end, deltas=True)
    assert kept(root) == end
    (first / MARKER).unlink()
    message = f"{root} lacks offsets 0 to 7 but has later ones: directories were removed"
    assert refused(root, tmp_path, Moment(offset=20)).startswith(message)
    with history(root, tmp_path) as found:
        state = found.at(Moment())
        assert b"".join(state.snapshot()) == images[end], (
            "a complete state needs no earlier records"
        )


@pytest.mark.requirement("SP-03")
def test_states_that_are_no_longer_kept_change_no_result(
    writer: LogWriter, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that of a query which was planned before they were deleted."""
    writer.append(md.TopicRecord(name="t", topic_id=TOPIC_ID))
    writer.append(*(partition(number, (1, 2)) for number in range(50)))
    write_archive(root, writer.directory, 0, writer.end_offset, deltas=True)
    for _ in range(3):
        growing(root, writer, 6)
        writer.time_ms += 24 * 60 * 60 * 1000
    writer.close()
    before = [offset for offset, _ in states(reader(root))]
    deleted: list[int] = []
    plan = ArchiveSource.plan

    def and_then_expired(self: ArchiveSource, *given: Any, **more: Any) -> Any:
        found = plan(self, *given, **more)
        if not deleted:
            deleted.append(expire_states(reader(root), 1, lambda uri: remove(Path(uri))))
        return found

    monkeypatch.setattr(ArchiveSource, "plan", and_then_expired)
    for offset in (before[0], *before):
        with history(root, tmp_path) as found:
            state = found.at(Moment(offset=offset))
            expected = replay_directory(writer.directory, Moment(offset=offset))
            assert b"".join(state.snapshot()) == b"".join(expected.snapshot())
            assert not found.one_by_one
    left = [offset for offset, _ in states(reader(root))]
    assert deleted == [len(before) - len(left)]
    assert before[0] not in left
    assert before[-1] in left
    assert 3 <= len(left) < len(before)
    assert len(list((root / STATES).iterdir())) == len(left)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def newer(number: int) -> md.PartitionChangeRecord:
    """A change with a field that this version does not know."""
    return md.PartitionChangeRecord(
        partition_id=number, topic_id=TOPIC_ID, leader=2, tagged_fields=((900, b"newer"),)
    )


@pytest.mark.requirement("SP-03")
def test_fields_of_a_newer_version_do_not_make_a_query_read_the_whole_history(
    writer: LogWriter, root: Path, tmp_path: Path
) -> None:
    """Deltas and states are kept also behind such a record, and say that the state lacks something."""
    writer.append(md.TopicRecord(name="t", topic_id=TOPIC_ID))
    writer.append(*(partition(number, (1, 2)) for number in range(50)), newer(7))
    write_archive(root, writer.directory, 0, writer.end_offset, deltas=True)
    read = []
    for number in range(3):
        start = writer.end_offset
        write_archive(root, writer.directory, start, writer.append(newer(number)), deltas=True)
        growing(root, writer, 4)
        with history(root, tmp_path) as found:
            state = found.at(Moment())
            expected = replay_directory(writer.directory, Moment())
            assert not found.one_by_one
            assert list(differences(state, expected)) == []
            assert state.left_out == {"PartitionChangeRecord with fields of a newer version"}
            with pytest.raises(PipelineError, match="would lose unknown records: PartitionChange"):
                next(state.snapshot())
            read.append(found.rows_read)
    assert sum(1 for _ in states(reader(root))) > 1
    assert max(read) <= 220 < writer.end_offset / 8
    writer.close()


@pytest.mark.requirement("SP-03")
def test_aborted_transaction_over_several_spans_is_left_to_compiled_loops(
    writer: LogWriter, root: Path, tmp_path: Path
) -> None:
    images = write_history(writer)
    first = writer.end_offset
    begin, abort = md.BeginTransactionRecord(name="t"), md.AbortTransactionRecord(reason=None)
    other = UUID(int=78)
    for records in (
        [begin, md.TopicRecord(name="aborted", topic_id=other)],
        *([partition(number, (1, 2), other)] for number in range(5)),
        [md.PartitionChangeRecord(partition_id=0, topic_id=other, leader=2), abort],
    ):
        writer.append(*records)
    writer.close()
    source = DirectorySource(writer.directory, span_bytes=100, worth_bytes=0)
    with JobHistory(STAGES, source) as found:
        state = found.at(Moment())
        assert len(found.done) > 5
        assert not found.one_by_one
        assert [row["name"] for row in state.rows(TABLES_BY_NAME["topics"])] == []
        assert list(differences(state, replay_directory(writer.directory, Moment()))) == []
    write_archive(root, writer.directory, 0, first, first + 3, writer.end_offset, deltas=True)
    assert kept(root) == writer.end_offset
    with history(root, tmp_path) as found:
        assert b"".join(found.at(Moment(offset=first)).snapshot()) == images[first]
        assert b"".join(found.at(Moment()).snapshot()) == writer.image_bytes()
        assert sum(each.summary.records for each in found.done) == 0


@pytest.mark.requirement("SP-03")
@pytest.mark.parametrize("deltas", [True, False])
def test_ranges_merged_while_a_state_is_computed_give_the_same_state(
    writer: LogWriter, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deltas: bool
) -> None:
    """Between planning and reading: the files of the tasks are gone."""
    images = write_history(writer)
    writer.close()
    end = writer.end_offset
    write_archive(root, writer.directory, 0, 7, 30, end, deltas=deltas)
    plan, merges = ArchiveSource.plan, [(0, 30, end), (0, 7, 30)]

    def and_then_merged(self: ArchiveSource, *given: Any, **more: Any) -> Any:
        found = plan(self, *given, **more)
        if merges:
            borders = merges.pop()
            write_archive(root, writer.directory, borders[0], borders[-1], deltas=deltas)
            for each in pairwise(borders):
                shutil.rmtree(root / RECORDS / OffsetRange(*each).directory)
                shutil.rmtree(root / DELTAS / OffsetRange(*each).directory, ignore_errors=True)
        return found

    monkeypatch.setattr(ArchiveSource, "plan", and_then_merged)
    with history(root, tmp_path) as found:
        assert b"".join(found.at(Moment()).snapshot()) == images[end]
        assert "is damaged" not in found.how()
    assert not merges
