"""Damage is found and reported with file, byte and offset; all other records are read."""

from pathlib import Path

import pytest

from quorum_node.records import metadata as md
from quorum_node.records.batches import HEADER_START, encode_values
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import LogDirectory, open_log
from quorum_pipeline.files.log_rows import span_rows
from quorum_pipeline.files.log_span import Damage, damaged_tail, read_span
from quorum_pipeline.files.next_batch import complete_batch, next_batch
from quorum_pipeline.files.snapshot_file import first_snapshot, open_snapshot
from support.written_log import LogWriter, write_history


@pytest.fixture
def log(tmp_path: Path) -> LogDirectory:
    """Twenty batches of two records in three segments."""
    writer = LogWriter(tmp_path, segment_bytes=700)
    for _ in range(20):
        writer.append(md.NoOpRecord(), md.NoOpRecord())
    writer.close()
    found = open_log(tmp_path)
    assert len(found.segments) == 3
    return found


def damages(log: LogDirectory) -> list[Damage]:
    return [
        found
        for span in open_log(log.path).spans(0, 1 << 30)
        for found in read_span(span)
        if isinstance(found, Damage)
    ]


def offsets(log: LogDirectory) -> list[int]:
    return [
        offset
        for span in open_log(log.path).spans(0, 1 << 30)
        for rows in span_rows(span, 0, 1 << 62, keep_problems=True)
        for offset, content in zip(rows.offsets, rows.contents, strict=True)
        if content.problem is None
    ]


def change(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def flip(path: Path, position: int, bit: int = 0) -> None:
    change(path, position, bytes([path.read_bytes()[position] ^ (1 << bit)]))


def test_undamaged_log_has_no_damage(log: LogDirectory) -> None:
    assert damages(log) == []


def test_flipped_bit_loses_one_batch(log: LogDirectory) -> None:
    second = log.segments[1]
    size = 2 * (log.segments[1].size_bytes // 16)
    flip(second.path, 70)
    (damage,) = damages(log)
    assert (damage.path, damage.position) == (str(second.path), 0)
    assert damage.offset == second.base_offset
    assert "checksum differs" in str(damage)
    assert size > 0
    lost = {second.base_offset, second.base_offset + 1}
    assert set(offsets(log)) == set(range(40)) - lost


def test_every_flipped_bit_of_a_batch_is_detected(log: LogDirectory) -> None:
    """In the checksum's own field, too; the epoch is not covered by it and is compared by the audit."""
    path, original = log.segments[1].path, log.segments[1].path.read_bytes()
    for position in range(60):
        if 12 <= position < 16:
            continue
        flip(path, position, position % 8)
        assert damages(log), f"byte {position}"
        path.write_bytes(original)
    assert damages(log) == []


@pytest.mark.parametrize("batch", [0, 2])
def test_flipped_bit_in_the_last_segment_loses_one_batch(log: LogDirectory, batch: int) -> None:
    """Be it in the length or in an offset: the end of the log stays where it is, and what is behind is read."""
    last = log.segments[-1]
    original = last.path.read_bytes()
    size = 12 + int.from_bytes(original[8:12], "big")
    lost = {last.base_offset + 2 * batch, last.base_offset + 2 * batch + 1}
    for position in range(batch * size, batch * size + 60):
        if position - batch * size in range(12, 16):
            continue
        for bit in (0, 7):
            flip(last.path, position, bit)
            (damage,) = damages(log)
            assert (damage.position, damage.offset) == (batch * size, min(lost)), f"byte {position}"
            assert damage.end_offset == max(lost) + 1
            assert open_log(log.path).end_offset() == 40
            assert set(offsets(log)) == set(range(40)) - lost
            last.path.write_bytes(original)


def test_last_batch_of_a_log_counts_if_its_checksum_is_valid(log: LogDirectory) -> None:
    """No later data shows its length; a length that is too long is reported as a batch that is being written."""
    last = log.segments[-1]
    original = last.path.read_bytes()
    begin = len(original) - 12 - int.from_bytes(original[8:12], "big")
    for position in (0, 7, 16, 20, 26, 57, 70):
        flip(last.path, begin + position)
        assert open_log(log.path).end_offset() == 38, f"byte {position}"
        damage = damaged_tail(open_log(log.path))
        assert damage is not None
        assert (damage.position, damage.offset, damage.end_offset) == (begin, 38, None)
        last.path.write_bytes(original)
    assert damaged_tail(open_log(log.path)) is None
    flip(last.path, begin + 10)
    assert open_log(log.path).end_offset() == 38
    assert damaged_tail(open_log(log.path)) is None


def test_damage_is_a_row_in_every_partition_that_it_overlaps(log: LogDirectory) -> None:
    """A micro batch may begin within a batch that can't be read."""
    flip(log.segments[1].path, 70)
    lost = log.segments[1].base_offset
    found = [
        (rows.offsets[0], rows.batch_offsets[0], rows.contents[0].problem, rows.source)
        for span in open_log(log.path).spans(lost + 1, 1 << 30)
        for rows in span_rows(span, lost + 1, lost + 2, keep_problems=True)
    ]
    path = str(log.segments[1].path)
    assert found == [(lost + 1, lost + 1, "checksum differs", path)]
    for span in open_log(log.path).spans(0, 1 << 30):
        for start, end in ((lost - 2, lost), (lost + 2, 40)):
            list(span_rows(span, start, end, keep_problems=False))


def test_damage_row_contains_its_location(log: LogDirectory) -> None:
    path = log.segments[1].path
    size = 12 + int.from_bytes(path.read_bytes()[8:12], "big")
    flip(path, 70 + size)
    (span,) = (each for each in open_log(log.path).spans(0, 1 << 30) if each.path == str(path))
    (place,) = (
        (rows.offsets[index], rows.batch_offsets[index], rows.positions[index], rows.source)
        for rows in span_rows(span, 0, 40, keep_problems=True)
        for index, _ in rows.problems()
    )
    lost = log.segments[1].base_offset + 2
    assert place == (lost, lost, size, str(path))


def test_older_batches_at_a_later_position_do_not_count_as_continuation(tmp_path: Path) -> None:
    """As a disk may leave them: whole, with right checksums, one behind the other."""
    writer = LogWriter(tmp_path)
    for _ in range(8):
        writer.append(md.NoOpRecord(), md.NoOpRecord())
    writer.close()
    log = open_log(tmp_path)
    content = log.segments[0].path.read_bytes()
    size = len(content) // 8
    change(log.segments[0].path, 4 * size, content[: 2 * size])
    (damage,) = damages(log)
    assert (damage.position, damage.offset, damage.end_offset) == (4 * size, 8, 12)
    assert offsets(log) == [*range(8), *range(12, 16)]


def test_gap_is_reported_once_and_later_batches_are_read(tmp_path: Path) -> None:
    """Two batches are cut out of the middle of a file; what is left fits together again behind them."""
    writer = LogWriter(tmp_path)
    for _ in range(6):
        writer.append(md.NoOpRecord(), md.NoOpRecord())
    writer.close()
    log = open_log(tmp_path)
    (segment,) = log.segments
    content = segment.path.read_bytes()
    size = len(content) // 6
    segment.path.write_bytes(content[:size] + content[3 * size :])
    (damage,) = damages(log)
    assert (damage.position, damage.offset, damage.end_offset) == (size, 2, 6)
    assert offsets(log) == [0, 1, 6, 7, 8, 9, 10, 11]
    assert open_log(tmp_path).end_offset() == 12


@pytest.mark.parametrize("is_inner", [True, False])
def test_batches_after_a_long_damage_are_read(tmp_path: Path, is_inner: bool) -> None:
    """However many offsets it takes with it."""
    count, lost = 4_000, range(4_000, 156_000)
    values = [md.encode_metadata(md.NoOpRecord())] * count
    batches = [
        encode_values(base_offset=base, leader_epoch=1, timestamp_ms=1, values=values)
        for base in range(0, lost.stop + 2 * count, count)
    ]
    content = [bytes(len(each)) if 0 < n < 39 else each for n, each in enumerate(batches)]
    (tmp_path / f"{0:020d}.log").write_bytes(b"".join(content))
    if is_inner:
        (tmp_path / f"{lost.stop + 2 * count:020d}.log").touch()
    log = open_log(tmp_path)
    assert log.end_offset() == lost.stop + 2 * count
    (damage,) = damages(log)
    assert (damage.offset, damage.end_offset) == (lost.start, lost.stop)
    assert offsets(log) == [*range(lost.start), *range(lost.stop, lost.stop + 2 * count)]


def test_checksums_are_calculated_only_where_the_next_header_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else bytes that look like many long batches, one within the other, would be read again for each of them."""
    tried = []

    def complete(content: bytes, position: int, end_position: int) -> tuple[int, int] | None:
        tried.append(position)
        return complete_batch(content, position, end_position)

    monkeypatch.setattr("quorum_pipeline.files.next_batch.complete_batch", complete)
    header = HEADER_START.pack(0, 20_000, 1, 2, 0, 0, 0)
    batches = [
        encode_values(base_offset=offset, leader_epoch=1, timestamp_ms=1, values=[b"x"])
        for offset in (1, 2)
    ]
    garbage = header * 1_000
    content = garbage + b"".join(batches)
    assert next_batch(content, 0, 0, len(content), 3) == (len(garbage), 1)
    assert tried == [len(garbage)]


def test_truncated_segment_is_damage_except_at_the_end_of_the_log(log: LogDirectory) -> None:
    first, last = log.segments[0], log.segments[-1]
    last.path.write_bytes(last.path.read_bytes()[:-5])
    assert damages(log) == []
    assert offsets(log) == list(range(38))
    last.path.write_bytes(last.path.read_bytes() + bytes(4096))
    first.path.write_bytes(first.path.read_bytes()[:-5])
    (cut, *_) = damages(log)
    assert cut.path == str(first.path)
    assert cut.offset == log.segments[1].base_offset - 2


def test_missing_segment_is_a_gap(log: LogDirectory) -> None:
    log.segments[1].path.unlink()
    (damage,) = damages(log)
    assert damage.path == str(log.segments[0].path)
    assert f"offset {log.segments[2].base_offset} is expected" in str(damage)


def test_log_continues_from_the_oldest_snapshot_that_reaches_it(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, segment_bytes=100)
    writer.append(md.NoOpRecord())
    assert first_snapshot(open_log(tmp_path)) is None
    writer.snapshot()
    writer.append(md.NoOpRecord())
    writer.append(md.NoOpRecord())
    reaching = writer.snapshot(drop_log=True)
    writer.append(md.NoOpRecord())
    writer.snapshot()
    writer.close()
    log = open_log(tmp_path)
    assert (len(log.snapshots), log.start_offset > 1) == (3, True)
    found = first_snapshot(log)
    assert found is not None
    assert found.id == reaching
    found.path.unlink()
    (log.path / log.snapshots[-1].file_name).unlink()
    with pytest.raises(PipelineError, match=rf"begins at offset {log.start_offset}, and no snap"):
        first_snapshot(open_log(tmp_path))


def test_invalid_log_directory_is_rejected_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="does not exist"):
        open_log(tmp_path / "nowhere")
    with pytest.raises(PipelineError, match=r"neither segments .* nor snapshots"):
        open_log(tmp_path)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(PipelineError, match="not a directory"):
        open_log(file)


def test_snapshot_without_footer_or_with_a_flipped_bit_is_named(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    write_history(writer)
    name = writer.snapshot().file_name
    writer.close()
    path = writer.directory / name
    original = path.read_bytes()
    assert open_snapshot(path).bounds().kraft_version == 1
    flip(path, len(original) // 2)
    with pytest.raises(PipelineError, match=rf"{name}.*is damaged"):
        open_snapshot(path).bounds()
    reader = open_snapshot(path)
    path.write_bytes(original[: -len(original) // 3])
    with pytest.raises(PipelineError, match=rf"{name}.*(middle of a batch|no footer)"):
        list(reader.batches())
    with pytest.raises(PipelineError, match="is not a snapshot: its name must be"):
        open_snapshot(tmp_path / "x.checkpoint")


@pytest.mark.parametrize("left_bytes", range(60, 300, 40))
def test_file_that_became_shorter_is_damaged(log: LogDirectory, left_bytes: int) -> None:
    span = next(log.spans(0, 1 << 30))
    path = Path(span.path)
    path.write_bytes(path.read_bytes()[:left_bytes])
    (damage,) = (each for each in read_span(span) if isinstance(each, Damage))
    assert damage.path == span.path
    assert damage.position <= left_bytes
