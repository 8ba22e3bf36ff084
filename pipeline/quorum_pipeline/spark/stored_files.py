"""Writes whole files of executors to any file system that Hadoop supports.

Python workers can't use Hadoop's file systems, and Spark's own writer of Parquet would convert every value of every row. So a
worker makes its files in a temporary directory, and Spark's writer of text, which writes the bytes of a string as they are, writes
each of them as one line. Behind a line it writes a separator; a Parquet file ends with four fixed bytes, which are that separator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quorum_pipeline.archive.layout import DELTAS, QUARANTINE, RECORDS
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.written_parts import Part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quorum_pipeline.spark.hadoop_files import HadoopFiles

_END = b"PAR1"
"""The last bytes of a Parquet file. Source: the Parquet format, "File Format"."""
_ALL = {"partitionOverwriteMode": "static"}
"""Files of an interrupted run are overwritten too, whatever the default of a session is."""
_NO_NUMBERS = (0, 0, None, None, 0)
_SCHEMA = (
    "place string, name string, content binary, rows bigint, quarantined bigint, least bigint,"
    " most bigint, delta_rows bigint"
)


@dataclass(frozen=True, slots=True)
class FileStore:
    """A file system, and the session that writes to it."""

    session: SparkSession
    files: HadoopFiles

    def write(self, made: Any, scratch: str, targets: Mapping[str, str]) -> Part:
        """Write the files in an RDD of the rows of `file_rows` to directories (`targets`, by the place of a file).

        Returns the sum of their parts with the names of the files. `scratch` is a directory for unfinished files in the same file
        system. Files of lost attempts are not among the written ones.

        Raises PipelineError, and Spark's errors.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as sf

        frame = self.session.createDataFrame(made, _SCHEMA, verifySchema=False)
        seen = Observation()
        counted = frame.observe(
            seen,
            sf.count(sf.lit(1)).alias("files"),
            sf.sum(sf.length("content")).alias("size_bytes"),
            *(sf.sum(name).alias(name) for name in ("rows", "quarantined", "delta_rows")),
            sf.min("least").alias("least"),
            sf.max("most").alias("most"),
        )
        line = sf.col("content").cast("string").alias("line")
        writer = counted.select("place", "name", line).write.mode("overwrite").options(**_ALL)
        writer.partitionBy("place", "name").text(scratch, compression="none", lineSep=_END.decode())
        found = seen.get
        size_bytes = (found["size_bytes"] or 0) + len(_END) * found["files"]
        names = self._given_names(scratch, targets, found["files"], size_bytes)
        return Part(
            names.get(RECORDS, ()),
            next(iter(names.get(DELTAS, ())), ""),
            found["delta_rows"] or 0,
            names.get(QUARANTINE, ()),
            found["rows"] or 0,
            found["quarantined"] or 0,
            found["least"],
            found["most"],
        )

    def _given_names(
        self, scratch: str, targets: Mapping[str, str], files: int, size_bytes: int
    ) -> dict[str, tuple[str, ...]]:
        """Move the files to their directories. Raises PipelineError if they are not as many, and as long, as those that were made."""
        found = {place: self._found(f"{scratch}/place={place}") for place in targets}
        written = [size for each in found.values() for _, _, size in each]
        if (len(written), sum(written)) != (files, size_bytes):
            raise PipelineError(
                f"executors made {files} files of {size_bytes} bytes for {scratch}, which has {len(written)} of"
                f" {sum(written)} bytes"
            )
        for place, each in found.items():
            if each:
                self.files.move([(path, name) for path, name, _ in each], targets[place])
        self.files.delete(scratch)
        return {place: tuple(name for _, name, _ in each) for place, each in found.items()}

    def _found(self, directory: str) -> list[tuple[str, str, int]]:
        """Path, name and size in bytes of each written file of a place."""
        return [
            (f"{directory}/{inner}/{each.name}", inner.removeprefix("name="), each.size_bytes)
            for inner in self.files.list(directory)
            for each in self.files.stored(f"{directory}/{inner}")
            if each.name[0] not in "._"
        ]


def file_rows(part: Part, root: Path) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each file of a part, on an executor. The directories in `root` have the names of their places; a file is
    deleted once it is read. Raises OSError.
    """
    numbers: tuple[Any, ...]
    numbers = (part.rows, part.quarantined, part.least, part.most, part.delta_rows)
    deltas = (part.delta,) if part.delta else ()
    for place, names in ((RECORDS, part.records), (QUARANTINE, part.quarantine), (DELTAS, deltas)):
        for name in names:
            yield (*file_row(root, place, name)[:3], *numbers)
            numbers = _NO_NUMBERS


def file_row(root: Path, place: str, name: str) -> tuple[Any, ...]:
    """Return the row of one file without numbers, like `file_rows`."""
    path = root / place / name
    content = path.read_bytes()
    assert content.endswith(_END), f"{name} is a Parquet file"
    path.unlink()
    return (place, name, bytearray(content[: -len(_END)]), *_NO_NUMBERS)
