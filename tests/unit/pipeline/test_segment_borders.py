"""Spans of a log are found without reading the headers between them, and are those that reading all of them gives."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quorum_node.records.batches import SPAN, encode_values
from quorum_pipeline.files import segment_borders
from quorum_pipeline.files.log_directory import LogSpan, open_log
from quorum_pipeline.files.log_span import PlacedBatch, read_span
from quorum_pipeline.files.segment_borders import border_at, border_before
from support.written_log import LogWriter

SMALL = 400
"""As for batches of at most this size, instead of 8 MiB."""


@contextmanager
def chain(size_bytes: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_borders, "CHAIN_BYTES", size_bytes)
        yield


def random_log(root: Path, random: Random, batches: int, segment_bytes: int) -> LogWriter:
    writer = LogWriter(root, segment_bytes=segment_bytes)
    for _ in range(batches):
        writer.append_bytes([random.randbytes(random.randrange(60))] * random.randrange(1, 4))
    writer.close()
    return writer


def found(log: Path, start: int, target_bytes: int, limit: int | None) -> list[Any]:
    """What a reader of the spans meets. Why a batch is no good depends on how much of it is in the span."""
    return [
        each.batch.header.base_offset
        if isinstance(each, PlacedBatch)
        else (each.position, each.offset, each.end_offset)
        for span in open_log(log).spans(start, target_bytes, limit)
        for each in read_span(span)
    ]


def walked(log: Path, *wanted: Any) -> list[LogSpan]:
    with chain(1 << 40):
        return list(open_log(log).spans(*wanted))


def test_spans_are_those_of_all_headers(tmp_path: Path) -> None:
    for number in range(6):
        random = Random(number)
        segment_bytes = 1 << 20 if number % 2 else 9_000
        writer = random_log(tmp_path / str(number), random, 150, segment_bytes)
        log, end = writer.directory, writer.end_offset
        with chain(1 << 40):
            tail = open_log(log).tail
        with chain(SMALL):
            assert open_log(log).tail == tail
        for _ in range(60):
            start, target = random.randrange(end), random.choice([1, 300, 900, 4_000, 1 << 40])
            limit = random.choice([None, random.randrange(end + 3)])
            with chain(SMALL):
                spans = list(open_log(log).spans(start, target, limit))
            assert spans == walked(log, start, target, limit), (number, start, target, limit)


def test_damage_is_met_wherever_spans_are_cut(tmp_path: Path) -> None:
    writer = random_log(tmp_path / "node", Random(1), 300, 1 << 20)
    (path,) = writer.directory.glob("*.log")
    whole, damaged = path.read_bytes(), 0
    for number in range(60):
        random = Random(number)
        content = bytearray(whole)
        at = random.randrange(len(content))
        content[at : at + random.choice([1, 40, 700])] = b"\x02" * random.choice([1, 40, 700])
        path.write_bytes(content)
        for target in (1, 900, 3_000):
            with chain(1 << 40):
                expected = found(writer.directory, 0, target, None)
            with chain(SMALL):
                assert found(writer.directory, 0, target, None) == expected, (number, target)
        damaged += any(not isinstance(each, int) for each in expected)
    assert damaged > 40


class _Counted:
    """The format of a header, with the number of headers that were read."""

    size = SPAN.size

    def __init__(self) -> None:
        self.reads = 0

    def unpack_from(self, content: Any, position: int) -> tuple[Any, ...]:
        self.reads += 1
        return SPAN.unpack_from(content, position)


@pytest.mark.requirement("SP-08")
def test_headers_that_are_read_depend_on_the_number_of_spans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not on the length of the log: the driver of a long one would walk for minutes before the first task begins."""
    reads = []
    for times in (1, 4):
        log = random_log(tmp_path / str(times), Random(1), 2_000 * times, 1 << 30).directory
        size_bytes = open_log(log).segments[0].size_bytes
        counted = _Counted()
        with chain(SMALL), monkeypatch.context() as patch:
            patch.setattr(segment_borders, "SPAN", counted)
            spans = list(open_log(log).spans(0, size_bytes // 10))
            middle = open_log(log).spans(2_000 * times, size_bytes, 2_100 * times)
            assert len(spans) == 10
            assert len(list(middle)) == 1
            assert open_log(log).end_offset() == spans[-1].end_offset or spans[-1].is_last
        reads.append(counted.reads)
    assert reads[1] < 1.5 * reads[0] < 2_000


def test_batches_within_a_record_are_no_borders(tmp_path: Path) -> None:
    """A value may contain what looks like a part of this log."""
    writer = LogWriter(tmp_path / "node", segment_bytes=1 << 20)
    offset, inner = 40, b""
    while len(inner) < SMALL - 150:
        inner += encode_values(base_offset=offset, leader_epoch=1, timestamp_ms=0, values=[b"x"])
        offset += 1
    for _ in range(60):
        writer.append_bytes([inner])
    writer.close()
    (segment,) = open_log(writer.directory).segments
    with chain(1 << 40):
        borders = {segment.start, *segment_borders.walked(segment, segment.start)}
    with chain(SMALL):
        for position in range(0, segment.size_bytes - 3 * SMALL, 7):
            border = border_at(segment, position)
            assert border is None or border in borders
        assert border_before(segment, 30) in borders
        assert list(open_log(writer.directory).spans(0, 2_000)) == walked(
            writer.directory, 0, 2_000
        )
