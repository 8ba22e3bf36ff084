"""Records that are missing at the end of a segment, or all of a segment's: no command and no source takes the others for the log.

A segment that was truncated between two batches, or to nothing, has no byte that is wrong.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from quorum_node.records.batches import encode_values
from quorum_node.records.metadata import ConfigRecord, encode_metadata
from quorum_pipeline.__main__ import main
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.log_rows import span_rows
from quorum_pipeline.files.log_span import Damage, read_span
from quorum_pipeline.files.span_tasks import tasks_of
from quorum_pipeline.spark.audit_job import audit_logs, log_replica
from quorum_pipeline.spark.log_source import LogReader
from quorum_pipeline.spark.options import log_options
from quorum_pipeline.spark.origins import DirectoryOrigin
from quorum_pipeline.spark.spark_history import DirectorySource, JobHistory
from quorum_pipeline.spark.stages import StagesHere
from quorum_pipeline.spark.state_job import ReducedLog
from quorum_pipeline.spark.timeline_job import log_source, read_timeline
from quorum_pipeline.state.moment import Moment

BATCH, SEGMENT, END = 5, 15, 45
"""Offsets of a batch, of a segment, and of the log."""
CUTS = [(segment, batches) for segment in (0, 1) for batches in (0, 1, 2)]
"""Number of a segment, and how many of its batches are left."""
SPAN_BYTES = [1, 1 << 25]
IDENTITY = ("--voter", "1@localhost:9", "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg")


def batch(offset: int) -> bytes:
    values = [
        encode_metadata(
            ConfigRecord(resource_type=2, resource_name="x", name=f"a{n:02d}", value="v")
        )
        for n in range(offset, offset + BATCH)
    ]
    return encode_values(base_offset=offset, leader_epoch=1, timestamp_ms=offset, values=values)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three segments of three batches."""
    path = tmp_path / "log"
    path.mkdir()
    for base in range(0, END, SEGMENT):
        content = b"".join(map(batch, range(base, base + SEGMENT, BATCH)))
        (path / f"{base:020d}.log").write_bytes(content)
    return path


def segment(log: Path, number: int) -> Path:
    return log / f"{number * SEGMENT:020d}.log"


def cut(log: Path, number: int, batches: int) -> range:
    """Truncate a segment behind so many of its batches; return the offsets that are lost."""
    path = segment(log, number)
    content = path.read_bytes()
    path.write_bytes(content[: batches * len(content) * BATCH // SEGMENT])
    return range(number * SEGMENT + batches * BATCH, (number + 1) * SEGMENT)


def source_offsets(log: Path, **options: str) -> Iterator[int]:
    reader = LogReader(log_options({"path": str(log), **options}), None)  # type: ignore[arg-type]
    for task in reader.partitions():
        for rows in task.rows(keep_problems=False):  # type: ignore[attr-defined]
            yield from map(int, rows.offsets)


@pytest.mark.requirement("SP-02")
@pytest.mark.parametrize(("number", "batches"), CUTS)
@pytest.mark.parametrize("span_bytes", SPAN_BYTES)
def test_jobs_report_lost_records(log: Path, number: int, batches: int, span_bytes: int) -> None:
    lost, stages = cut(log, number, batches), StagesHere(1)
    place = rf"{segment(log, number).name} is damaged at byte \d+, offset {lost.start}: "
    says = f"the segment ends although offset {lost.stop} is expected"
    with (
        pytest.raises(PipelineError, match=place + says),
        JobHistory(stages, DirectorySource(log, span_bytes)) as history,
    ):
        history.at(Moment())
    with pytest.raises(PipelineError, match=place + says):
        read_timeline(stages, log_source(log, 1, span_bytes))
    (finding,) = audit_logs(stages, [log_replica(log, 1, span_bytes)]).findings
    assert (finding.file, finding.offset) == (segment(log, number).name, lost.start)
    assert finding.what == says


@pytest.mark.parametrize(("number", "batches"), CUTS)
def test_commands_report_lost_records(
    log: Path, number: int, batches: int, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = cut(log, number, batches)
    says = f"the segment ends although offset {lost.stop} is expected"
    target = log.parent / "restored"
    for command in (
        ("state", "--log", log),
        ("timeline", "--log", log),
        ("restore", "--log", log, "--output", target, *IDENTITY),
    ):
        assert main([*map(str, command)]) == 2, command[0]
        assert says in capsys.readouterr().err
    assert not list(target.glob("**/*.checkpoint"))
    assert main(["audit", str(log)]) == 1
    assert says in capsys.readouterr().out


@pytest.mark.parametrize(("number", "batches"), CUTS)
def test_source_reports_lost_records(log: Path, number: int, batches: int) -> None:
    """Wherever a query begins or ends, and into how many tasks it is divided."""
    lost = cut(log, number, batches)
    says = f"offset {lost.stop} is expected"
    options = ({}, {"spanBytes": "1"}, {"minPartitions": "4"}, {"minPartitions": "40"})
    for more in options:
        ranges = ({}, {"startOffset": str(lost.start)}, {"startOffset": str(lost.start + 1)})
        for wanted in (*ranges, {"endOffset": str(lost.start + 1)}, {"endOffset": str(lost.stop)}):
            with pytest.raises(PipelineError, match=says):
                list(source_offsets(log, **more, **wanted))
        around = {"endOffset": str(lost.start)}, {"startOffset": str(lost.stop)}
        found = [offset for each in around for offset in source_offsets(log, **more, **each)]
        assert found == [n for n in range(END) if n not in lost], more


def test_range_without_any_record_has_a_task(log: Path) -> None:
    """It is archived as damage."""
    cut(log, 1, 0)
    for span_bytes in SPAN_BYTES:
        (task,) = DirectoryOrigin(log, span_bytes).tasks(SEGMENT, 2 * SEGMENT)
        ((row,),) = ([*rows.offsets] for rows in task.rows(keep_problems=True))  # type: ignore[attr-defined]
        assert row == SEGMENT


def test_lost_record_has_no_batch(log: Path) -> None:
    """That of the next record is not it: an archive would be taken for one of another log."""
    for number, batches in ((1, 0), (0, 2)):
        origin = DirectoryOrigin(log, 1)
        lost = cut(log, number, batches)
        assert [origin.stamp(each) for each in lost] == [None] * len(lost)
        assert origin.stamp(lost.stop) is not None or lost.stop == SEGMENT


@pytest.mark.parametrize("span_bytes", SPAN_BYTES)
def test_records_cut_out_of_a_segment_are_reported_at_a_limit(log: Path, span_bytes: int) -> None:
    """Nothing is left in their place, and reading ends where they would."""
    path = segment(log, 1)
    content, size = path.read_bytes(), len(batch(SEGMENT))
    path.write_bytes(content[:size] + content[2 * size :])
    lost = range(SEGMENT + BATCH, SEGMENT + 2 * BATCH)
    for start in (0, lost.start, lost.start + 1):
        for limit in (lost.start + 1, lost.stop):
            spans = open_log(log).spans(start, span_bytes, limit)
            (damage,) = (
                each for span in spans for each in read_span(span) if isinstance(each, Damage)
            )
            assert (damage.offset, damage.end_offset) == (lost.start, lost.stop)
            assert damage.reason == f"offset {lost.stop} where {lost.start} is expected"


@pytest.mark.parametrize("span_bytes", SPAN_BYTES)
def test_garbage_before_the_first_batch_is_reported(log: Path, span_bytes: int) -> None:
    """Although no record is lost; a range that begins there has it, and the one before has not."""
    path = segment(log, 1)
    path.write_bytes(b"\0" * 50 + path.read_bytes())
    for start, end, expected in ((0, SEGMENT, []), (SEGMENT, END, [SEGMENT])):
        blocks = [
            rows
            for span in open_log(log).spans(start, span_bytes)
            for rows in span_rows(span, start, end, keep_problems=True)
        ]
        found = [rows.offsets[n] for rows in blocks for n, _ in rows.problems()]
        assert found == expected
    (finding,) = audit_logs(StagesHere(1), [log_replica(log, 1, span_bytes)]).findings
    assert (finding.file, finding.position) == (path.name, 0)


@pytest.mark.parametrize("missing", [0, 1])
def test_tasks_that_are_not_adjacent_are_reported(log: Path, missing: int) -> None:
    """As each of them reads only what it was given: here one is left out, be it the first one."""
    stages = StagesHere(1)
    source = log_source(log, 1, 1 << 25)
    tasks = (*source.tasks[:missing], *source.tasks[missing + 1 :])
    says = f"{(missing + 1) * SEGMENT} where {missing * SEGMENT} is expected"
    with pytest.raises(PipelineError, match=says):
        read_timeline(stages, replace(source, tasks=tasks))
    plan = tasks_of(log, [Moment()], 1, 1 << 25)
    short = replace(
        plan,
        tasks=(*plan.tasks[:missing], *plan.tasks[missing + 1 :]),
        cuts=(len(plan.tasks) - 1,),
    )
    with ReducedLog(stages, short, 2) as reduced, pytest.raises(PipelineError, match=says):
        reduced.state()
