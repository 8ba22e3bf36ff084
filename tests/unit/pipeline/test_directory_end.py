"""The end of a directory: uncommitted records are not read by default, and lost records are reported."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from quorum_node.storage.synced_end import FILE_NAME, SyncedEnd, read_synced_end
from quorum_pipeline.__main__ import main
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogDirectory, open_log
from quorum_pipeline.files.log_span import damaged_tail, lost_records, read_span
from quorum_pipeline.spark.options import log_options
from quorum_pipeline.spark.origins import origin_of
from support.metadata_records import level
from support.written_log import LogWriter, broker

COMMITTED, END = 13, 15


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    """Broker 12 is registered in the last committed record, brokers 13 and 14 in records after it; three segments."""
    made = LogWriter(tmp_path / "node", segment_bytes=700)
    made.append(level("metadata.version", 29))
    for number in range(1, END):
        made.append(broker(number))
    made.record_committed(COMMITTED)
    assert len(open_log(made.directory).segments) > 2
    return made


def shown_brokers(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[int]:
    assert main(["state", *map(str, arguments), "--show", "brokers"]) == 0
    return [json.loads(line)["broker_id"] for line in capsys.readouterr().out.splitlines()]


def test_state_contains_the_committed_records(
    writer: LogWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = list(range(1, END))
    assert shown_brokers(capsys, "--log", writer.directory) == everything[: COMMITTED - 1]
    assert main(["state", "--log", str(writer.directory)]) == 0
    output = capsys.readouterr()
    assert f"state at offset {COMMITTED}," in output.out
    assert f"ends at offset {END}, but only records below offset {COMMITTED}" in output.err
    requested = ["--log", writer.directory, "--at-offset", str(END)]
    assert shown_brokers(capsys, *requested) == everything, "an explicit end offset was not read"
    late = ["--log", writer.directory, "--at-time", "2100-01-01T00:00:00Z"]
    assert shown_brokers(capsys, *late) == everything[: COMMITTED - 1]


def test_all_records_are_read_once_committed(
    writer: LogWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    writer.record_committed(END)
    assert shown_brokers(capsys, "--log", writer.directory) == list(range(1, END))
    assert main(["state", "--log", str(writer.directory)]) == 0
    assert "note:" not in capsys.readouterr().err


def test_snapshot_contains_only_committed_records(writer: LogWriter) -> None:
    writer.snapshot()
    assert open_log(writer.directory).committed_end_offset() == END


def without_quorum_state(directory: Path) -> None:
    (directory / "quorum-state").unlink()


def without_record(directory: Path) -> None:
    (directory / FILE_NAME).unlink()


def with_a_damaged_record(directory: Path) -> None:
    (directory / FILE_NAME).write_bytes(b"\0" * 12_288)


def with_the_state_of_other_software(directory: Path) -> None:
    path = directory / "quorum-state"
    state = json.loads(path.read_bytes())
    del state["crc32c"]
    path.write_text(json.dumps(state))


@pytest.mark.parametrize(
    "change",
    [
        without_quorum_state,
        without_record,
        with_a_damaged_record,
        with_the_state_of_other_software,
    ],
)
def test_directory_without_a_committed_end_is_read_to_its_log_end(
    writer: LogWriter, capsys: pytest.CaptureFixture[str], change: Callable[[Path], None]
) -> None:
    """As of stock Kafka, with a note."""
    change(writer.directory)
    assert main(["state", "--log", str(writer.directory)]) == 0
    output = capsys.readouterr()
    assert f"state at offset {END}," in output.out
    assert "does not record which records are committed" in output.err


def read_offsets(log: LogDirectory, limit: int | None) -> list[int]:
    found = [each for span in log.spans(0, 100, limit) for each in read_span(span)]
    return [each.batch.header.base_offset for each in found]  # type: ignore[union-attr]


def test_spans_end_at_the_limit(writer: LogWriter) -> None:
    log = open_log(writer.directory)
    for limit in range(1, END + 1):
        assert read_offsets(log, limit) == list(range(limit))
    assert read_offsets(log, None) == list(range(END))
    assert list(log.spans(0, 100, 0)) == []


def test_data_source_reads_committed_records(writer: LogWriter) -> None:
    path = str(writer.directory)
    assert origin_of(log_options({"path": path})).bounds() == (0, COMMITTED)
    named = log_options({"path": path, "endOffset": str(END)})
    assert origin_of(named).bounds() == (0, END)


def test_timeline_ends_with_the_committed_records(
    writer: LogWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["timeline", "--log", str(writer.directory)]) == 0
    output = capsys.readouterr()
    assert f"in offsets 0 to {COMMITTED}" in output.out
    assert f"only records below offset {COMMITTED}" in output.err


# -- records that were synced and are missing


@pytest.fixture
def shortened(writer: LogWriter) -> Path:
    """The last batch is missing, with all of its bytes."""
    last = open_log(writer.directory).segments[-1]
    borders = [
        each.position  # type: ignore[union-attr]
        for span in open_log(writer.directory).spans(last.base_offset, 1 << 30)
        for each in read_span(span)
    ]
    last.path.write_bytes(last.path.read_bytes()[: borders[-1]])
    return writer.directory


def test_log_shorter_than_its_synced_end_is_damaged(
    shortened: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = open_log(shortened)
    damage = lost_records(log)
    assert damage is not None
    assert damage == damaged_tail(log)
    assert (damage.offset, damage.end_offset) == (END - 1, END)
    wrong = (
        f"{damage.path} is damaged at byte {damage.position}, offset {END - 1}: the log ends here"
    )
    for command in ("state", "timeline"):
        assert main([command, "--log", str(shortened)]) == 2
        assert wrong in capsys.readouterr().err
    other = shortened.parent.parent / "other"
    shutil.copytree(shortened.parent, other)
    assert main(["audit", str(shortened), str(other)]) == 1
    assert (
        "the log ends here, but its node has synced it up to offset 15" in capsys.readouterr().out
    )
    assert shown_brokers(capsys, "--log", shortened, "--at-offset", "5") == [1, 2, 3, 4]


def test_archive_reports_the_loss(shortened: Path) -> None:
    with pytest.raises(PipelineError, match=f"synced it up to offset {END}"):
        origin_of(log_options({"path": str(shortened)})).check_end()


def test_missing_last_segment_is_damage(writer: LogWriter) -> None:
    open_log(writer.directory).segments[-1].path.unlink()
    damage = lost_records(open_log(writer.directory))
    assert damage is not None
    assert damage.end_offset == END


def test_truncation_by_the_node_is_no_loss(writer: LogWriter) -> None:
    """The node lowers its record first; the log may be read in between."""
    before = open_log(writer.directory)
    found = read_synced_end(writer.directory)
    assert found is not None
    file = SyncedEnd(writer.directory, END, 1, found)
    file.lower_to(END - 1, 1)
    assert lost_records(open_log(writer.directory)) is None
    last = before.segments[-1].path
    shutil.copy(last, last.with_suffix(".copy"))
    (border,) = (
        each.position  # type: ignore[union-attr]
        for span in before.spans(END - 1, 1)
        for each in read_span(span)
        if each.batch.header.base_offset == END - 1  # type: ignore[union-attr]
    )
    last.write_bytes(last.read_bytes()[:border])
    stale = LogDirectory(
        before.path, open_log(before.path).segments, before.snapshots, before.recorded
    )
    assert lost_records(stale) is None
    file.close()


def test_segment_deleted_while_the_directory_is_listed_is_left_out(writer: LogWriter) -> None:
    """As by a running node behind its snapshot: here a name that leads nowhere."""
    writer.snapshot()
    expected = open_log(writer.directory)
    first = expected.segments[0].path
    first.unlink()
    first.symlink_to("nothing")
    found = open_log(writer.directory)
    assert found.segments == expected.segments[1:]
    assert found.start_offset == expected.segments[1].base_offset


@pytest.mark.parametrize("snapshot", [False, True])
def test_state_at_a_time_is_the_same_with_and_without_a_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: bool
) -> None:
    """It ends before the first later record. The clock of the second leader was behind that of the first one."""
    writer = LogWriter(tmp_path / "node")
    for number, hour in enumerate((8, 11, 9, 12), start=1):
        if snapshot and number == 4:
            writer.snapshot()
        writer.time_ms = hour * 3_600_000
        writer.append(broker(number))
    writer.record_committed(4)
    assert len(open_log(writer.directory).snapshots) == snapshot
    at_ten = ["--log", writer.directory, "--at-time", "1970-01-01T10:00:00Z"]
    assert shown_brokers(capsys, *at_ten) == [1]
