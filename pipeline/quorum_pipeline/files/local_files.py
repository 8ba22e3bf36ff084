"""Small files of an archive in the local file system, named by Hadoop URIs.

Owns the rule which names are local. Must not know Spark, which need not be started for local archives. Source: Hadoop's
`org.apache.hadoop.fs.Path`: the text before the first colon is a scheme unless it contains a slash; nothing is
escaped.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from quorum_pipeline.errors import PipelineError

_NAME_A_FILE_SYSTEM = (
    "HADOOP_CONF_DIR",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_HOME",
    "SPARK_SUBMIT_OPTS",
    "YARN_CONF_DIR",
)
"""Environment variables that locate Spark's settings, which may define the file system of plain paths. Without them it is the local one."""


FILE = "file://"
"""In front of an absolute path: without it, Spark looks for a path in its default file system, which may be another one."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file: its size, and its modification time by the clock of its file system."""

    name: str
    size_bytes: int
    modified_ms: int


def local_path(uri: str) -> Path | None:
    """Return the local path of a URI with the scheme `file` or of a path without a scheme; None for other URIs."""
    head, colon, rest = uri.partition(":")
    if not colon or "/" in head:
        path = uri
    elif head == "file" and rest.startswith("/"):
        path = rest.removeprefix("//") if rest.startswith("///") else rest
    else:
        return None
    # After two slashes follows a host name.
    return None if not path or path.startswith("//") else Path(os.path.normpath(path))


def file_uri(path: Path) -> str:
    """Return the URI of a local path for Spark."""
    return f"{FILE}{path.absolute()}"


def is_local(uri: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a URI is certainly local, without Spark's setting for paths without a scheme."""
    has_scheme = ":" in uri.partition("/")[0]
    names_a_file_system = any(environment.get(name) for name in _NAME_A_FILE_SYSTEM)
    return local_path(uri) is not None and (has_scheme or not names_a_file_system)


class LocalFiles:
    """Like `HadoopFiles`, for local names. Every call may raise OSError, or PipelineError for other names."""

    def local_path(self, directory: str) -> Path:
        """The local path."""
        found = local_path(directory)
        if found is None:
            raise PipelineError(f"{directory} is not in the file system of this machine")
        return found

    def list(self, directory: str) -> list[str]:
        """Names in a directory; empty if it does not exist. Hadoop's checksum files are left out."""
        path = self.local_path(directory)
        try:
            names = os.listdir(path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(each for each in names if not (each[0] == "." and each.endswith(".crc")))

    def stored(self, directory: str) -> tuple[StoredFile, ...]:
        """Files in a directory, sorted by name; empty if there is none."""
        path, found = self.local_path(directory), []
        for name in self.list(directory):
            status = _status(path / name)
            if status is not None and S_ISREG(status.st_mode):
                found.append(StoredFile(name, status.st_size, status.st_mtime_ns // 1_000_000))
        return tuple(found)

    def read(self, file: str) -> str | None:
        """Text of a file; None if it does not exist."""
        try:
            return self.local_path(file).read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def tail(self, file: str, size_bytes: int) -> bytes:
        """The end of a file, or all of it if it is shorter."""
        with self.local_path(file).open("rb") as opened:
            opened.seek(max(opened.seek(0, os.SEEK_END) - size_bytes, 0))
            return opened.read()

    def fetch(self, file: str, scratch: Path) -> Path:
        """The path of the file itself; nothing is copied."""
        return self.local_path(file)


def size_of(directory: Path) -> int:
    """Size of all files in a directory, at any depth. It may be in use: what is deleted meanwhile does not count."""
    files = (
        os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names
    )
    found = [status for status in map(_status, files) if status is not None]
    return sum(each.st_size for each in found if S_ISREG(each.st_mode))


def _status(path: Path | str) -> os.stat_result | None:
    """Status of a file; None if it has been deleted. Raises OSError."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None
