"""Timelines of logs, archives, and lists of records, by the functions of the command, for any division into spans."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from quorum_node.records import metadata as md
from quorum_node.records.batches import Record
from quorum_node.records.control import encode_control
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.local_files import LocalFiles
from quorum_pipeline.files.timeline_span import SCHEMA
from quorum_pipeline.rows.arrow import record_batch
from quorum_pipeline.rows.content import Content
from quorum_pipeline.rows.table import Rows
from quorum_pipeline.spark.stages import Stages, StagesHere
from quorum_pipeline.spark.timeline_job import (
    ReadTimeline,
    TimelineSource,
    archive_source,
    log_source,
)
from quorum_pipeline.spark.timeline_job import read_timeline as timeline_by
from quorum_pipeline.timeline.events import Event
from quorum_pipeline.timeline.span import TimelineSpan


def read_timeline(
    path: Path, span_bytes: int | None = None, stages: Stages | None = None
) -> ReadTimeline:
    stages = stages or StagesHere(2)
    return timeline_by(stages, log_source(path, stages.slots, span_bytes))


def archived_timeline(root: Path, stages: Stages | None = None) -> ReadTimeline:
    reader = ArchiveReader(LocalFiles(), str(root))
    with TemporaryDirectory() as scratch:
        return timeline_by(stages or StagesHere(2), archive_source(reader, Path(scratch)))


@dataclass(frozen=True)
class _RecordsTask:
    """Records with their times, from an offset on, as one span."""

    offset: int
    records: Sequence[tuple[int, object]] = field(default_factory=list)

    def read(self) -> TimelineSpan:
        rows = Rows("told")
        for number, (time_ms, record) in enumerate(self.records):
            control = not hasattr(record, "RECORD_TYPE")
            encoded: Any = record
            reported = encode_control(encoded) if control else Record(None, _encoded(encoded))
            kind = type(record).__name__
            rows.offsets.append(self.offset + number)
            rows.epochs.append(4)
            rows.timestamps_ms.append(time_ms)
            rows.controls.append(control)
            rows.contents.append(Content(kind, 0, record, None))  # type: ignore[arg-type]
            rows.record_keys.append(reported.key)
            rows.values.append(reported.value)
        found = TimelineSpan()
        found.add(record_batch(rows, SCHEMA))
        return found


def timeline_of(records: list[tuple[int, object]], *cuts: int) -> list[Event]:
    """Of records with their times in ms, cut before the records of these numbers."""
    borders = [0, *cuts, len(records)]
    tasks: Any = tuple(_RecordsTask(begin, records[begin:end]) for begin, end in pairwise(borders))
    return list(timeline_by(StagesHere(1), TimelineSource("told", 0, tasks)).events)


def _encoded(record: md.MetadataMessage) -> bytes:
    return md.encode_metadata(record, md.record_version(type(record), md.LATEST_LEVEL))
