"""Parquet files with the checksum of their footer in the name.

Pages have checksums of their own, the footer has none: with one flipped bit in it a reader may take a page of another
column, or miss rows, without an error. The footer is known before a file gets its name, so the name can have its
checksum: `part-0-0.1a2b3c4d.parquet`. Files that Spark writes, and those of older archives, have none and are read as
they are. Must not know Spark, nor what is in a file. Source: the Parquet format: "File Format".
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from crc32c import crc32c

from quorum_pipeline.archive.layout import MARKER, marker_text
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.merged_parts import current, read_current

_SUFFIX = ".parquet"
_SEALED = re.compile(r"(.+)\.([0-9a-f]{8})\.parquet")
_END_BYTES = 8
"""Length of the footer, and the format's name."""
_LIKELY_FOOTER_BYTES = 128 << 10
"""Number of bytes that contain most footers."""


def seal(unfinished: Path, stem: str) -> str:
    """Sync a complete file and rename it, in its directory, to the stem with the checksum. Raises OSError."""
    with unfinished.open("rb") as file:
        name = f"{stem}.{_footer_crc(file):08x}{_SUFFIX}"
        os.fsync(file.fileno())
    os.replace(unfinished, unfinished.with_name(name))
    return name


def write_marker(directory: Path, content: Mapping[str, Any]) -> None:
    """Write the marker of a complete directory. It is synced before it gets its name. Raises OSError."""
    write_marker_text(directory, marker_text(content))


def write_marker_text(directory: Path, text: str) -> None:
    """Like `write_marker`, for the text of a marker. Raises OSError."""
    unfinished = directory / f".{MARKER}"
    with unfinished.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, directory / MARKER)


def publish(unfinished: Path, target: Path) -> None:
    """Sync a complete file, rename it to `target` on the same file system, and sync the directory. Raises OSError."""
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(unfinished, target)
    sync_directory(target.parent)


def sync_directory(directory: Path) -> None:
    """Sync the names in a directory. Raises OSError."""
    file = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def seal_all(directory: Path) -> None:
    """Add the checksums to the names of files that another program wrote. Raises OSError."""
    for path in sorted(directory.glob(f"*{_SUFFIX}")):
        seal(path, stem_of(path.name))
        # Hadoop's checksum file for the earlier content
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def stem_of(name: str) -> str:
    """Return the name without checksum and suffix."""
    found = _SEALED.fullmatch(name)
    return found[1] if found else name.removesuffix(_SUFFIX)


def check_footer(path: Path) -> None:
    """Raise PipelineError if the footer's checksum differs from that in the name, OSError."""
    found = _SEALED.fullmatch(path.name)
    if found is None:
        return
    with path.open("rb") as file:
        if _footer_crc(file) != int(found[2], 16):
            raise PipelineError("the checksum of its footer is wrong")


@contextmanager
def opened(path: Path, **options: Any) -> Iterator[pq.ParquetFile]:
    """Open a file for reading with all checksums verified. Raises PipelineError, also for errors inside of the context, and
    OSError.
    """
    file = open_sealed(path, **options)
    with naming(path), file:
        yield file


def open_sealed(path: Path, **options: Any) -> pq.ParquetFile:
    """Like `opened`, but the caller closes the file and adds its name to later errors (`naming`). Raises PipelineError,
    OSError.
    """
    with naming(path):
        return read_current(path, partial(_open, **options))


def _open(path: Path, **options: Any) -> pq.ParquetFile:
    check_footer(path)
    return pq.ParquetFile(path, page_checksum_verification=True, **options)


def read_footer(name: str, tail: Callable[[int], bytes]) -> pq.FileMetaData:
    """Read the metadata from the end of a file. `tail`: returns a number of bytes of the end. Raises PipelineError, and errors
    of `tail`.
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
    """Whether a name is that of a data file: not unfinished, and no metadata file such as a marker."""
    return name.endswith(_SUFFIX) and name[0] not in "._"


def parquet_files(directory: Path) -> list[Path]:
    """The Parquet files of a directory, sorted, without unfinished and metadata files; those of a range also if it was merged."""
    found = current(directory).glob(f"*{_SUFFIX}")
    return sorted(each for each in found if is_parquet(each.name))


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Add a file's name to errors in the context. Raises PipelineError, OSError."""
    try:
        yield
    except (pa.ArrowException, PipelineError, OSError, ValueError, LookupError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the file can't be read; the error names it
        reason = " ".join(str(error).split())
        raise PipelineError(f"{path}: {reason}") from None


def _footer_crc(file: BinaryIO) -> int:
    """Checksum of the footer. For a file too short for a footer it is that of the available bytes, which never matches."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _END_BYTES, 0))
    length = int.from_bytes(file.read(4), "little")
    file.seek(max(size - _END_BYTES - length, 0))
    return crc32c(file.read())
