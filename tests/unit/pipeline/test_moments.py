"""Points in a history by time: which records they include, and what is reported of a damaged snapshot."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from quorum_node.image.resource_types import TOPIC
from quorum_node.records import metadata as md
from quorum_node.records.batches import HEADER_BYTES, encode_values, split_batches
from quorum_node.records.control import VotersRecord
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.__main__ import main
from quorum_pipeline.archive.layout import DELTAS, MARKER, STATES, parsed_marker, state_directory
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.local_files import LocalFiles
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.snapshot_file import open_snapshot
from quorum_pipeline.spark.spark_history import WORTH_BYTES, DirectorySource, JobHistory
from quorum_pipeline.spark.stages import StagesHere
from quorum_pipeline.spark.state_job import SparkState
from quorum_pipeline.spark.stored_states import keep_state
from quorum_pipeline.state.moment import Moment, parsed_time_ms
from support.metadata_records import config
from support.written_archive import archived_state, write_archive
from support.written_log import LogWriter, broker, voter, write_history

_BASE_MS, _MAX_MS, _CRC, _COVERED = (
    slice(27, 35),
    slice(35, 43),
    slice(17, 21),
    slice(21, None),
)
"""Places in a batch. Source: Kafka's record batch, version 2."""


def sealed(batch: bytearray) -> bytes:
    batch[_CRC] = crc32c(bytes(batch[_COVERED])).to_bytes(4, "big")
    return bytes(batch)


def state_of(path: Path, moment: Moment, worth_bytes: int = WORTH_BYTES) -> SparkState:
    with JobHistory(StagesHere(1), DirectorySource(path, None, worth_bytes)) as history:
        return history.at(moment)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("1970-01-01T00:00:01.250Z", 1_250),
        ("1970-01-01T00:00:01.250999Z", 1_250),
        ("1970-01-01T00:00:01.2506+00:00", 1_250),
        ("1969-12-31T23:59:59.9995Z", -1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("9999-12-31T23:59:59.999999", 253_402_300_799_999),
    ],
)
def test_time_is_rounded_down(text: str, expected_ms: int) -> None:
    """A record of the next millisecond is later than the time."""
    assert parsed_time_ms(text) == expected_ms


@pytest.mark.parametrize("length", [0, 11, HEADER_BYTES - 1, HEADER_BYTES + 3])
def test_damaged_snapshot_is_named_if_a_state_by_time_needs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], length: int
) -> None:
    writer = LogWriter(tmp_path, segment_bytes=300)
    write_history(writer)
    file = tmp_path / "__cluster_metadata-0" / writer.snapshot(drop_log=True).file_name
    writer.close()
    file.write_bytes(file.read_bytes()[:length])
    assert main(["state", "--log", str(tmp_path), "--at-time", "2030-01-01"]) == 2
    captured = capsys.readouterr()
    line = captured.err.splitlines()[-1]  # after notes about the source
    assert line.startswith(f"quorum-pipeline state: {file}, byte 0: "), line


def test_snapshot_counts_from_the_time_of_its_last_record_and_not_of_its_writing(
    tmp_path: Path,
) -> None:
    """Stock Kafka's snapshots have the time of writing in their batches."""
    writer = LogWriter(tmp_path, segment_bytes=300)
    write_history(writer)
    last_ms = writer.time_ms - 1_000
    named = writer.snapshot(drop_log=True)
    image = writer.image_bytes()
    writer.time_ms += 60_000
    writer.elect(3)
    writer.close()
    path = writer.directory / named.file_name
    head, *others = split_batches(path.read_bytes())[0]
    written = bytearray(head.data)
    for place in (_BASE_MS, _MAX_MS):
        written[place] = (last_ms + 30_000).to_bytes(8, "big")
    path.write_bytes(sealed(written) + b"".join(each.data for each in others))
    assert open_snapshot(path).bounds().last_contained_log_timestamp_ms == last_ms
    for time_ms in (last_ms, last_ms + 10_000, last_ms + 40_000):
        assert b"".join(state_of(tmp_path, Moment(time_ms=time_ms)).snapshot()) == image
    with pytest.raises(PipelineError, match="has no state at time"):
        state_of(tmp_path, Moment(time_ms=last_ms - 1))


def two_times(writer: LogWriter, values: list[bytes], later_ms: int) -> None:
    """Append a batch whose last record is later than the others."""
    data = bytearray(
        encode_values(
            base_offset=writer.end_offset,
            leader_epoch=writer.epoch,
            timestamp_ms=writer.time_ms,
            values=values,
        )
    )
    at = HEADER_BYTES
    for _ in values[1:]:
        at += 1 + (data[at] >> 1)
    data[at + 2] = later_ms << 1  # after length and attributes; a short zigzag number
    data[_MAX_MS] = (writer.time_ms + later_ms).to_bytes(8, "big")
    writer._appended(sealed(data), len(values))


@pytest.mark.parametrize("worth_bytes", [0, WORTH_BYTES], ids=["compiled", "record by record"])
def test_time_within_a_batch_gives_the_same_state_of_log_and_archive(
    tmp_path: Path, worth_bytes: int
) -> None:
    writer = LogWriter(tmp_path / "node")
    write_history(writer)
    begin, time_ms = writer.end_offset, writer.time_ms
    values = [
        md.encode_metadata(config(TOPIC, name, "a", "1"), md.ConfigRecord.HIGHEST_VERSION)
        for name in ("t", "u", "v")
    ]
    two_times(writer, values, 20)
    writer.elect(3)
    writer.close()
    write_archive(tmp_path / "archive", writer.directory, 0, 7, writer.end_offset, deltas=True)
    expected = {time_ms - 1: 0, time_ms: 2, time_ms + 19: 2, time_ms + 20: 3, time_ms + 5_000: 4}
    for moment_ms, records in expected.items():
        found = state_of(writer.directory, Moment(time_ms=moment_ms), worth_bytes)
        archived = archived_state(tmp_path / "archive", Moment(time_ms=moment_ms))
        assert found.end_offset == archived.end_offset == begin + records, moment_ms
        assert b"".join(found.snapshot()) == b"".join(archived.snapshot()), moment_ms
    for offset in (begin + 1, begin + 2, begin + 3):
        found = state_of(writer.directory, Moment(offset=offset), worth_bytes)
        archived = archived_state(tmp_path / "archive", Moment(offset=offset))
        assert b"".join(found.snapshot()) == b"".join(archived.snapshot()), offset


_HOUR_MS = 3_600_000


def write_hours(writer: LogWriter, *hours: int) -> None:
    """A broker's registration at each hour."""
    for hour in hours:
        writer.time_ms = hour * _HOUR_MS
        writer.append(broker(writer.end_offset + 1))


@pytest.mark.parametrize("removed", [False, True], ids=["delta", "records"])
def test_stored_state_has_the_greatest_time_also_without_a_delta(
    tmp_path: Path, removed: bool
) -> None:
    """The clock of the second leader was behind that of the first one. A state ends before the first later record."""
    writer = LogWriter(tmp_path / "node")
    write_hours(writer, 8, 11, 9, 12)
    writer.close()
    root = tmp_path / "archive"
    write_archive(root, writer.directory, 0, 3, deltas=True)
    if removed:
        shutil.rmtree(root / DELTAS)
    assert keep_state(StagesHere(1), ArchiveReader(LocalFiles(), str(root)), 1) == 3
    write_archive(root, writer.directory, 3, 4, deltas=True)
    marker = parsed_marker((root / STATES / state_directory(3) / MARKER).read_text())
    assert marker["latest_ms"] == 11 * _HOUR_MS
    moments = {8: 1, 9: 1, 10: 1, 11: 3, 12: 4}
    found = {hour: archived_state(root, Moment(time_ms=hour * _HOUR_MS)) for hour in moments}
    assert {hour: each.end_offset for hour, each in found.items()} == moments


@pytest.mark.parametrize("worth_bytes", [0, WORTH_BYTES], ids=["compiled", "record by record"])
def test_greatest_time_of_a_log_is_that_of_its_records_up_to_the_moment(
    tmp_path: Path, worth_bytes: int
) -> None:
    writer = LogWriter(tmp_path)
    write_hours(writer, 8, 11, 9, 12)
    writer.close()
    for offset, hour in enumerate((8, 11, 11, 12), start=1):
        state = state_of(tmp_path, Moment(offset=offset), worth_bytes)
        assert state.summary.latest_ms == hour * _HOUR_MS


def test_snapshot_with_a_record_later_than_the_time_gives_no_state(tmp_path: Path) -> None:
    """The log begins before its only snapshot, whose last record is not its latest one: the clock was set back."""
    writer = LogWriter(tmp_path, segment_bytes=300)
    write_hours(writer, *range(8))
    dropped = writer.snapshot(drop_log=True)
    write_hours(writer, 8, 11, 9)
    named = writer.snapshot()
    write_hours(writer, 12)
    writer.close()
    (writer.directory / dropped.file_name).unlink()
    assert 0 < open_log(writer.directory).start_offset < named.end_offset
    assert state_of(tmp_path, Moment(time_ms=11 * _HOUR_MS)).end_offset == named.end_offset
    for hour in (9, 10):
        with pytest.raises(PipelineError, match="has no state at time"):
            state_of(tmp_path, Moment(time_ms=hour * _HOUR_MS))


def test_state_at_a_time_begins_with_the_snapshot_before_the_first_record(tmp_path: Path) -> None:
    """Stock Kafka writes such a snapshot when it formats a directory. The first voters are only there."""
    writer = LogWriter(tmp_path)
    write_hours(writer, 8, 9)
    writer.close()
    named = SnapshotId(0, 0)
    voters = VotersRecord((voter(1, 101),), None, log_position=(0, 0))
    bounds = SnapshotBounds(7 * _HOUR_MS, 1, voters)
    (writer.directory / named.file_name).write_bytes(b"".join(encode_snapshot(named, bounds, ())))
    for moment in (Moment(offset=1), Moment(time_ms=8 * _HOUR_MS)):
        found = state_of(tmp_path, moment).voters
        assert found is not None, moment
        assert [each.key.id for each in found.voters] == [1]


@pytest.mark.parametrize("worth_bytes", [0, WORTH_BYTES], ids=["compiled", "record by record"])
def test_segments_deleted_after_the_reading_was_planned_give_the_same_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worth_bytes: int
) -> None:
    """As by a running node, behind a snapshot that it has written meanwhile."""
    writer = LogWriter(tmp_path, segment_bytes=700)
    write_history(writer)
    plan, planned = DirectorySource.plan, []

    def and_then_deleted(self: DirectorySource, *given: Any, **more: Any) -> Any:
        found = plan(self, *given, **more)
        if found is not None:
            planned.append(more["compiled"])
            if len(planned) == 1:
                writer.snapshot(drop_log=True)
        return found

    monkeypatch.setattr(DirectorySource, "plan", and_then_deleted)
    with JobHistory(StagesHere(2), DirectorySource(tmp_path, worth_bytes=worth_bytes)) as found:
        assert b"".join(found.at(Moment()).snapshot()) == writer.image_bytes()
    assert planned == [worth_bytes == 0] * 2, "it was planned again, for the same way"
    writer.close()
