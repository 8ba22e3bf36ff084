"""Footers of an archive's files: damage in one is reported with the file, and no wrong values are read."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.sealed_file import opened, seal, seal_all, stem_of

TABLE = pa.table({"a": list(range(9)), "b": list(range(9, 18))})


def written(path: Path) -> Path:
    """Two columns of one type: only their footers show which page belongs to which column."""
    pq.write_table(TABLE, path, write_page_checksum=True, use_dictionary=False, compression="none")
    return path


def read(path: Path) -> pa.Table:
    with opened(path) as file:
        return file.read()


@pytest.mark.requirement("SP-02")
def test_any_flipped_bit_of_a_footer_is_detected(tmp_path: Path) -> None:
    path = tmp_path / seal(written(tmp_path / ".p.parquet"), "p")
    assert read(path).equals(TABLE)
    sound = path.read_bytes()
    begin = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    assert begin > 0
    for at in range(begin, len(sound)):
        damaged = bytearray(sound)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        with pytest.raises(PipelineError, match=f"^{path}: the checksum of its footer is wrong$"):
            read(path)
    for size in (0, 3, 11, len(sound) - 1):
        path.write_bytes(sound[:size])
        with pytest.raises(PipelineError, match=f"^{path}: the checksum of its footer is wrong$"):
            read(path)


def test_footer_without_checksum_is_read_and_its_errors_name_the_file(
    tmp_path: Path,
) -> None:
    """As Spark and older versions write them: any error of such a file is one line with its name."""
    path = written(tmp_path / "older.parquet")
    assert read(path).equals(TABLE)
    sound = path.read_bytes()
    begin = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    reported = list[str]()
    for at in range(begin, len(sound)):
        damaged = bytearray(sound)
        damaged[at] ^= 0x80
        path.write_bytes(damaged)
        try:
            read(path)
        except PipelineError as error:
            reported.append(str(error))
    assert len(reported) > (len(sound) - begin) / 2
    assert [each for each in reported if not each.startswith(f"{path}: ") or "\n" in each] == []


def test_files_of_another_program_get_checksums(tmp_path: Path) -> None:
    path = written(tmp_path / "part-00000-c000.zstd.parquet")
    (tmp_path / f".{path.name}.crc").touch()
    for _ in range(2):
        seal_all(tmp_path)
        (only,) = tmp_path.iterdir()
        assert stem_of(only.name) == "part-00000-c000.zstd" != only.stem
        assert read(only).equals(TABLE)


def test_sealed_file_names() -> None:
    assert stem_of("part-0-0.0123abcd.parquet") == stem_of("part-0-0.parquet") == "part-0-0"
    assert stem_of("part-00000-c000.snappy.parquet") == "part-00000-c000.snappy"
