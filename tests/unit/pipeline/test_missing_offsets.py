"""Memory of the check that no record of a range is missing; `test_archive_layout.py` has its rules."""

import tracemalloc
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from quorum_pipeline.archive.layout import OffsetRange
from quorum_pipeline.files.local_files import LocalFiles
from quorum_pipeline.spark import archive as archive_module
from quorum_pipeline.spark.archive import Archive


class Rows:
    """In place of a DataFrame: the offsets of files."""

    def __init__(self, offsets: npt.NDArray[np.int64]) -> None:
        self._offsets = offsets

    def select(self, _name: str) -> "Rows":
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802
        return pa.table({"offset": self._offsets})


class Files(LocalFiles):
    def __init__(self, _context: object) -> None:
        """Nothing is kept."""


class Session:
    sparkContext = None  # noqa: N815


def test_one_quarantined_record_does_not_take_much_memory_for_each_record_of_the_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, damaged = 200_000, 777
    monkeypatch.setattr(archive_module, "HadoopFiles", Files)
    archive = Archive(Session(), str(tmp_path))  # type: ignore[arg-type]
    every = np.arange(count, dtype=np.int64)
    rows = [Rows(every[1:2]), Rows(every[:1])]
    rows += [Rows(np.delete(every, damaged)), Rows(every[damaged : damaged + 1])]
    monkeypatch.setattr(Archive, "_rows", lambda *_: rows.pop(0))
    archive._check_gaps(OffsetRange(0, 2))  # loads modules
    tracemalloc.start()
    try:
        archive._check_gaps(OffsetRange(0, count))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 40 * count
