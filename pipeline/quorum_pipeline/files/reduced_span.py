"""A span of a segment, or a snapshot file, reduced to what it does to any state.

Owns reading it, up to what is damaged or behind the moment that is wanted. Runs wherever the file can be read: nothing
outside of the span is looked at. What is wrong is told with its offset, so that whoever has all spans can tell what is wrong first.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from quorum_node.records.batches import Batch, CorruptBatch, decode_records
from quorum_node.records.metadata_batch import decode_batch
from quorum_node.schema.primitives import MalformedRecord
from quorum_pipeline.deltas.contradiction import Contradiction
from quorum_pipeline.deltas.span import Span
from quorum_pipeline.deltas.summary import Summary
from quorum_pipeline.files.log_directory import LogSpan
from quorum_pipeline.files.log_span import Damage, read_span
from quorum_pipeline.files.snapshot_file import SnapshotFile

Reduced = tuple[Span, Summary]
BEFORE_THE_LOG = -(1 << 62)
"""Added to the offsets of a snapshot: what it says was before every record of the log."""


@dataclass(frozen=True, slots=True)
class SpanTask:
    """The records of a span from `start_offset` on and below `end_offset`, up to the first batch that is later than `time_ms`."""

    span: LogSpan
    start_offset: int
    end_offset: int
    time_ms: int | None = None

    def reduced(self) -> Reduced:
        """See above. Raises OSError."""
        found, at = Span(), Summary(self.start_offset, self.start_offset)
        for each in read_span(self.span):
            if isinstance(each, Damage):
                if each.offset < self.end_offset:
                    at = _stopped(
                        found, at, Contradiction(max(each.offset, self.start_offset), str(each))
                    )
                break
            header = each.batch.header
            if header.end_offset <= self.start_offset:
                continue
            if header.base_offset >= self.end_offset:
                break
            if self.time_ms is not None and header.max_timestamp_ms > self.time_ms:
                at = _stopped(found, at, None)
                break
            at = self._batch(found, at, each.batch)
            if at.stop:
                break
        return found, at

    def _batch(self, found: Span, at: Summary, batch: Batch) -> Summary:
        header = batch.header
        end = min(header.end_offset, self.end_offset)
        begin = max(header.base_offset, self.start_offset)
        if begin != at.end_offset:
            reason = f"offset {begin} where {at.end_offset} must follow: records are missing, or there twice"
            return _stopped(found, at, Contradiction(at.end_offset, reason))
        try:
            if header.is_control:
                at = _control(at, batch, begin, end)
            else:
                _metadata(found, batch, begin, end)
        except CorruptBatch as error:
            return _stopped(found, at, Contradiction(header.base_offset, str(error)))
        except MalformedRecord as error:
            return _stopped(found, at, Contradiction(begin, str(error)))
        return replace(
            at,
            end_offset=end,
            epoch=header.leader_epoch,
            timestamp_ms=header.max_timestamp_ms,
            records=at.records + end - begin,
            size_bytes=at.size_bytes + header.size_bytes,
            stop=found.malformed is not None,
            wrong=found.malformed,
        )


@dataclass(frozen=True, slots=True)
class SnapshotTask:
    """A snapshot: the state that the log goes on from."""

    file: SnapshotFile

    def reduced(self) -> Reduced:
        """What it says. Raises PipelineError where it is damaged, OSError."""
        bounds, end = self.file.bounds(), self.file.id.end_offset
        found = Span()
        at = Summary(end, end, self.file.id.epoch, bounds.last_contained_log_timestamp_ms)
        if bounds.voters is not None:
            at = replace(at.with_voters(bounds.voters), kraft_version=bounds.kraft_version)
        for _, batch in self.file.batches():
            if batch.header.is_control:
                continue
            for record in decode_records(batch):
                if not found.value(BEFORE_THE_LOG + record.offset, record.value or b""):
                    return found, replace(at, stop=True, wrong=found.malformed)
            at = replace(at, records=at.records + batch.header.record_count)
        return found, at


Task = SpanTask | SnapshotTask


def _stopped(found: Span, at: Summary, wrong: Contradiction | None) -> Summary:
    found.stopped = True
    return replace(at, stop=True, wrong=wrong)


def _control(at: Summary, batch: Batch, begin: int, end: int) -> Summary:
    for record in decode_records(batch):
        if begin <= record.offset < end:
            at = at.control(record, batch.header.leader_epoch)
    return at


def _metadata(found: Span, batch: Batch, begin: int, end: int) -> None:
    header = batch.header
    if (begin, end) == (header.base_offset, header.end_offset):
        try:
            records = decode_batch(batch)
        except MalformedRecord:
            records = []  # told record by record: which one it is
        if len(records) == header.record_count:
            for offset, record in enumerate(records, begin):
                found.replay(offset, record)
            return
    for offset, value in _values(batch):
        if begin <= offset < end and not found.value(offset, value):
            return


def _values(batch: Batch) -> Iterator[tuple[int, bytes]]:
    """Without nulls, which say nothing."""
    for each in decode_records(batch):
        if each.value is not None:
            yield each.offset, each.value
