"""Parquet files whose names have the checksum of their footer.

Pages have checksums of their own, the footer has none: with one flipped bit in it a reader may take a page of another
column, or miss rows, without an error. The footer is known before a file gets its name, so the name can have its
checksum: `part-0-0.1a2b3c4d.parquet`. Files that Spark writes, and those of older archives, have none and are read as
they are. Must not know Spark, nor what is in a file. Source: the Parquet format: "File Format".
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from crc32c import crc32c

from quorum_pipeline.archive.layout import MARKER, marker_text
from quorum_pipeline.errors import PipelineError

_SUFFIX = ".parquet"
_SEALED = re.compile(r"(.+)\.([0-9a-f]{8})\.parquet")
_END_BYTES = 8
"""Length of the footer, and the format's name."""
_LIKELY_FOOTER_BYTES = 128 << 10
"""Most footers are smaller."""


def seal(unfinished: Path, stem: str) -> str:
    """Give a whole file its name, beside it: the stem with the checksum. On the disk before that. Raises OSError."""
    with unfinished.open("rb") as file:
        name = f"{stem}.{_footer_crc(file):08x}{_SUFFIX}"
        os.fsync(file.fileno())
    os.replace(unfinished, unfinished.with_name(name))
    return name


def write_marker(directory: Path, told: Mapping[str, Any]) -> None:
    """The marker of a complete directory. It is on the disk before it has its name. Raises OSError."""
    unfinished = directory / f".{MARKER}"
    with unfinished.open("w") as file:
        file.write(marker_text(told))
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, directory / MARKER)


def seal_all(directory: Path) -> None:
    """What another program wrote there: its names get the checksums. Raises OSError."""
    for path in sorted(directory.glob(f"*{_SUFFIX}")):
        seal(path, stem_of(path.name))
        # Hadoop's checksum file for the earlier content
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def stem_of(name: str) -> str:
    """The name without checksum and suffix."""
    found = _SEALED.fullmatch(name)
    return found[1] if found else name.removesuffix(_SUFFIX)


def check_footer(path: Path) -> None:
    """Raises PipelineError if the footer is not the one that the name tells, OSError."""
    found = _SEALED.fullmatch(path.name)
    if found is None:
        return
    with path.open("rb") as file:
        if _footer_crc(file) != int(found[2], 16):
            raise PipelineError("the checksum of its footer is wrong")


@contextmanager
def opened(path: Path, **options: Any) -> Iterator[pq.ParquetFile]:
    """To be read, with all checksums verified. Raises PipelineError, also for what is raised inside of the context,
    OSError.
    """
    file = open_sealed(path, **options)
    with naming(path), file:
        yield file


def open_sealed(path: Path, **options: Any) -> pq.ParquetFile:
    """The same, to be closed by the caller, who names the file of later errors (`naming`). Raises PipelineError,
    OSError.
    """
    with naming(path):
        check_footer(path)
        return pq.ParquetFile(path, page_checksum_verification=True, **options)


def read_footer(name: str, tail: Callable[[int], bytes]) -> pq.FileMetaData:
    """The metadata of a file of which nothing but its end is read. `tail`: returns so many bytes of the end. Raises
    PipelineError, and what `tail` raises.
    """
    data = tail(_LIKELY_FOOTER_BYTES)
    size = int.from_bytes(data[-_END_BYTES:-4], "little") + _END_BYTES
    if size > len(data) == _LIKELY_FOOTER_BYTES:
        data = tail(size)
    found = _SEALED.fullmatch(name.rpartition("/")[2])
    with naming(name):
        if found is not None and crc32c(data[-size:]) != int(found[2], 16):
            raise PipelineError("the checksum of its footer is wrong")
        return pq.read_metadata(pa.BufferReader(data))


def is_parquet(name: str) -> bool:
    """Whether a file has content, and is neither unfinished nor about the others."""
    return name.endswith(_SUFFIX) and name[0] not in "._"


def parquet_files(directory: Path) -> list[Path]:
    """The Parquet files of a directory, sorted, without unfinished ones and those about the others."""
    return sorted(each for each in directory.glob(f"*{_SUFFIX}") if is_parquet(each.name))


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """What is wrong with a file, with its name. Raises PipelineError, OSError."""
    try:
        yield
    except (pa.ArrowException, PipelineError, OSError, ValueError, LookupError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the file can't be read; the error names it
        reason = " ".join(str(error).split())
        raise PipelineError(f"{path}: {reason}") from None


def _footer_crc(file: BinaryIO) -> int:
    """Of as much as there is: what is too short for a footer has no right checksum, either."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _END_BYTES, 0))
    length = int.from_bytes(file.read(4), "little")
    file.seek(max(size - _END_BYTES - length, 0))
    return crc32c(file.read())
