"""Records are read from an archive's files in order, for any distribution over files and any columns."""

import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quorum_node.records.batches import decode_records
from quorum_node.records.metadata import PartitionChangeRecord, encode_metadata
from quorum_pipeline.archive.layout import MARKER
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archived_records import file_groups, read_records
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.rows.table import MAX_TIMESTAMP_MS
from support.replayed_directory import read_whole
from support.replayed_state import BadRecord, Replayed
from support.written_archive import write_archive
from support.written_log import LogWriter, write_history

TOPIC_ID = UUID(int=5)
Rows = list[dict[str, object]]


@pytest.fixture
def written(tmp_path: Path) -> tuple[Rows, bytes]:
    """The rows of a log, and the image at its end."""
    writer = LogWriter(tmp_path / "node")
    write_history(writer)
    writer.close()
    rows: Rows = []
    for span in open_log(writer.directory).spans(0, 1 << 30):
        for placed in read_whole(span):
            header = placed.batch.header
            for record in decode_records(placed.batch):
                rows.append(
                    {
                        "offset": record.offset,
                        "epoch": header.leader_epoch,
                        "timestamp": record.timestamp_ms,
                        "control": header.is_control or None,
                        "record_key": record.key,
                        "value": record.value,
                    }
                )
    return rows, writer.image_bytes()


def write_files(directory: Path, rows: Rows) -> None:
    """Every third record in a file of its own kind, without the columns that are null there; the others backwards."""
    directory.mkdir()
    stamp = pa.timestamp("us", tz="UTC")
    schema = pa.schema(
        [("offset", pa.int64()), ("epoch", pa.int32()), ("timestamp", stamp), ("value", pa.binary()),
         ("control", pa.bool_()), ("record_key", pa.binary())]
    )  # fmt: skip
    timed = [each | {"timestamp": 1000 * int(str(each["timestamp"]))} for each in rows]
    few = [each for each in timed if not each["control"]][::3]
    others = [each for each in reversed(timed) if each not in few]
    for name, some, columns in (("few", few, schema.names[:4]), ("others", others, schema.names)):
        table = pa.Table.from_pylist(some, schema=schema).select(columns)
        pq.write_table(table, directory / f"{name}.parquet", row_group_size=7)
    pq.write_metadata(schema, directory / "_common_metadata")


def test_records_give_the_state_of_the_log(tmp_path: Path, written: tuple[Rows, bytes]) -> None:
    rows, image = written
    write_files(tmp_path / "part", rows)
    (found,) = read_records(tmp_path / "part", 2)
    state = Replayed()
    state.columns(found.before_offset(17))
    assert (state.end_offset, state.timestamp_ms) == (17, rows[16]["timestamp"])
    state.columns(found.from_offset(17))
    assert b"".join(state.snapshot()) == image
    assert state.leader_id == 2
    time_ms = found.timestamps_ms[20]
    assert len(found.up_to_time(time_ms)) == sum(each["timestamp"] <= time_ms for each in rows)


def replayed(directory: Path) -> Replayed:
    state = Replayed()
    for columns in read_records(directory, 2):
        state.columns(columns)
    return state


@pytest.mark.parametrize("reported", [True, False])
def test_memory_is_limited_by_the_overlap_of_files(
    tmp_path: Path, written: tuple[Rows, bytes], reported: bool
) -> None:
    """Files of three tasks, with names in no order; with and without statistics in them."""
    rows, image = written
    (tmp_path / "all").mkdir()
    for number, name in enumerate("bca"):
        write_files(tmp_path / name, rows[10 * number : 10 * number + 10 if number < 2 else None])
        for path in (tmp_path / name).glob("*.parquet"):
            table = pq.read_table(path)
            pq.write_table(
                table, tmp_path / "all" / f"{name}-{path.name}", write_statistics=reported
            )
    found = list(read_records(tmp_path / "all", 2))
    sizes = [10, 10, len(rows) - 20] if reported else [len(rows)]
    assert [len(each) for each in found] == sizes
    assert b"".join(replayed(tmp_path / "all").snapshot()) == image


def test_files_that_overlap_by_one_record_are_read_together(tmp_path: Path) -> None:
    for name, offsets in (("a", [0, 1, 3]), ("b", [2, 4]), ("c", [5])):
        times = pa.array([0] * len(offsets), pa.timestamp("us", tz="UTC"))
        columns = {"offset": offsets, "epoch": [1] * len(offsets), "timestamp": times}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    assert [found.offsets.tolist() for found in read_records(tmp_path, 1)] == [[*range(5)], [5]]


@pytest.mark.parametrize("is_spark", [False, True])
@pytest.mark.parametrize("time_ms", [-1, 1_700_000_000_123, MAX_TIMESTAMP_MS])
def test_timestamps_are_those_of_the_log_for_any_writer(
    tmp_path: Path, time_ms: int, is_spark: bool
) -> None:
    times = pa.array([1000 * time_ms], pa.timestamp("us", tz="UTC"))
    table = pa.table({"offset": [0], "epoch": [1], "timestamp": times, "value": [b""]})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=is_spark)
    (found,) = read_records(tmp_path, 1)
    assert found.timestamps_ms.tolist() == [time_ms]


def test_missing_and_invalid_records_are_reported(
    tmp_path: Path, written: tuple[Rows, bytes]
) -> None:
    rows, _ = written
    write_files(tmp_path / "part", [each for each in rows if each["offset"] != 12])
    with pytest.raises(PipelineError, match="offset 13 where 12 is expected"):
        replayed(tmp_path / "part")
    last = rows[-1] | {
        "value": encode_metadata(PartitionChangeRecord(partition_id=9, topic_id=TOPIC_ID))
    }
    write_files(tmp_path / "other", [*rows[:-1], last])
    with pytest.raises(BadRecord, match=rf"offset {last['offset']}: a change of partition .*-9"):
        replayed(tmp_path / "other")


def test_empty_and_foreign_directories_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    assert not list(read_records(tmp_path / "part", 1))
    (tmp_path / "part" / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(PipelineError, match=rf"^{tmp_path}/part/a.parquet: .* 4 bytes"):
        list(read_records(tmp_path / "part", 1))
    pq.write_table(pa.table({"offset": ["0"]}), tmp_path / "part" / "a.parquet")
    with pytest.raises(PipelineError, match=r"/a\.parquet: the column offset holds string"):
        list(read_records(tmp_path / "part", 1))


def test_flipped_bit_is_reported_if_pages_have_checksums(tmp_path: Path) -> None:
    """Without them it would be a record like any other."""
    path = tmp_path / "a.parquet"
    table = pa.table({"offset": [0], "epoch": [1], "timestamp": [5], "value": [b"the value"]})
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(table, path, write_page_checksum=True, **plain)
    (found,) = read_records(tmp_path, 1)
    assert list(found.each()) == [(0, b"the value")]
    data = bytearray(path.read_bytes())
    assert data.count(b"the value") == 1
    data[data.index(b"the value")] ^= 1
    path.write_bytes(data)
    with pytest.raises(PipelineError, match=rf"^{path}: .*checksum"):
        list(read_records(tmp_path, 1))


@pytest.fixture
def ranges(tmp_path: Path) -> list[Path]:
    """The directories of two ranges, the first one in several files."""
    writer = LogWriter(tmp_path / "node", segment_bytes=1000)
    write_history(writer)
    writer.close()
    return write_archive(tmp_path / "archive", writer.directory, 0, 30, writer.end_offset)


def taken_away(first: Path, second: Path) -> None:
    min(first.glob("*.parquet")).unlink()


def put_twice(first: Path, second: Path) -> None:
    one = min(first.glob("*.parquet"))
    shutil.copyfile(one, one.with_name("x" + one.name))


def of_another_range(first: Path, second: Path) -> None:
    """As many records as in the marker."""
    wanted = min(first.glob("*.parquet"))
    rows = pq.ParquetFile(min(second.glob("*.parquet"))).read()
    pq.write_table(rows.slice(0, pq.read_metadata(wanted).num_rows), wanted.with_name("x.parquet"))
    wanted.unlink()


def with_another_marker(first: Path, second: Path) -> None:
    shutil.copyfile(second / MARKER, first / MARKER)


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (taken_away, "files were removed, added or replaced"),
        (put_twice, "files were removed, added or replaced"),
        (of_another_range, "which do not belong to this directory"),
        (with_another_marker, "files were removed, added or replaced"),
    ],
)
def test_files_not_listed_in_the_marker_are_rejected(
    ranges: list[Path], change: Callable[[Path, Path], None], reported: str
) -> None:
    """Otherwise records would be silently missing in a timeline or in differences."""
    first, second = ranges
    assert sum(map(len, read_records(first, 2))) == 30
    change(first, second)
    for read in (lambda: list(read_records(first, 2)), lambda: list(file_groups(first, 0, 99))):
        with pytest.raises(PipelineError, match=reported):
            read()
    assert list(read_records(second, 2))


def test_damaged_footer_is_reported_with_its_file(ranges: list[Path]) -> None:
    """Arrow does not check names and statistics itself: some damage shows as a name that is no UTF-8."""
    file = min(ranges[0].glob("*.parquet"))
    data = file.read_bytes()
    footer_bytes = int.from_bytes(data[-8:-4], "little")
    reported = 0
    for at in range(len(data) - 8 - footer_bytes, len(data), 139):
        file.write_bytes(data[:at] + bytes((data[at] ^ 0x80,)) + data[at + 1 :])
        try:
            list(read_records(ranges[0], 1))
        except PipelineError as error:
            reported += str(error).startswith(str(ranges[0]))
    assert reported > 2
