"""Small files and directories on any file system that Hadoop supports: local, HDFS, object stores.

Owns the few calls that the archive needs. Spark itself reads and writes the tables.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.local_files import StoredFile
from quorum_pipeline.spark.reason import reason_of

_MISSING_CLASS = (
    "ClassNotFoundException",
    "NoClassDefFoundError",
    "UnsupportedFileSystemException",
)
_RENAMES_AT_ONCE = 8
"""An object store copies a renamed file; waiting for it takes longer than the work."""


class HadoopFiles:
    """Paths are URIs, or plain paths of the default file system. Every call may raise PipelineError."""

    def __init__(self, context: SparkContext) -> None:
        # PySpark has no public API for Hadoop's file systems. This private one has not changed
        # since 1.x.
        self._jvm: Any = context._jvm  # noqa: SLF001
        self._conf = context._jsc.hadoopConfiguration()  # noqa: SLF001

    def local_path(self, directory: str) -> Path | None:
        """Return the path in a mounted file system; None if the file system is not of the scheme file."""
        path, system = self._path(directory)
        uri = system.makeQualified(path).toUri()
        return Path(uri.getPath()) if uri.getScheme() == "file" else None

    def list(self, directory: str) -> list[str]:
        """Return the names in a directory; empty if it does not exist."""
        path, system = self._path(directory)
        if not self._call(directory, system.exists, path):
            return []
        return sorted(
            each.getPath().getName() for each in self._call(directory, system.listStatus, path)
        )

    def stored(self, directory: str) -> tuple[StoredFile, ...]:
        """Return the files in a directory, sorted by name; empty if it does not exist."""
        path, system = self._path(directory)
        if not self._call(directory, system.exists, path):
            return ()
        found = [
            StoredFile(each.getPath().getName(), each.getLen(), each.getModificationTime())
            for each in self._call(directory, system.listStatus, path)
            if each.isFile()
        ]
        return tuple(sorted(found, key=lambda each: each.name))

    def read(self, file: str) -> str | None:
        """Return the text of a file, or None if it does not exist."""
        path, system = self._path(file)
        if not self._call(file, system.exists, path):
            return None
        stream = self._call(file, system.open, path)
        try:
            text: str = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
            return text
        finally:
            stream.close()

    def tail(self, file: str, size_bytes: int) -> bytes:
        """Return the last `size_bytes` bytes of a file, or all of it if it is shorter."""
        path, system = self._path(file)
        length = self._call(file, system.getFileStatus, path).getLen()
        stream = self._call(file, system.open, path)
        try:
            self._call(file, stream.seek, max(length - size_bytes, 0))
            found = self._call(file, self._jvm.org.apache.commons.io.IOUtils.toByteArray, stream)
            return bytes(found)
        finally:
            stream.close()

    def write(self, file: str, text: str) -> None:
        """Create a file atomically: it exists with its whole text or not at all, even if the disk is full.

        Raises PipelineError if the name already exists.
        """
        path, system = self._path(file)
        part, _ = self._path(f"{file}.writing")
        stream = self._call(file, system.create, part, True)
        try:
            self._call(file, stream.write, bytearray(text.encode()))
        finally:
            self._call(file, stream.close)
        if not self._call(file, system.rename, part, path):
            raise PipelineError(
                f"{file} can't be written: the name already exists. If another process writes here, run only one"
            )

    def rename(self, directory: str, name: str) -> None:
        """Rename a directory or file; `name` must not exist, its parent has to. Raises PipelineError."""
        self._rename(directory, name)

    def move(self, files: Sequence[tuple[str, str]], directory: str) -> None:
        """Move files, each with its new name, to a directory, which is created. Raises PipelineError."""
        parent, system = self._path(directory)
        self._call(directory, system.mkdirs, parent)
        with ThreadPoolExecutor(_RENAMES_AT_ONCE) as pool:
            list(pool.map(lambda each: self._rename(each[0], f"{directory}/{each[1]}"), files))

    def delete(self, directory: str) -> None:
        """Delete a file or a directory with its content; do nothing if it does not exist."""
        path, system = self._path(directory)
        self._call(directory, system.delete, path, True)

    def upload(self, local: str, target: str) -> None:
        """Copy a file of this machine to `target`."""
        path, system = self._path(target)
        # Not `copyFromLocalFile`: s3a uses another client for it, which some stores with an S3 API don't understand.
        source = self._call(local, self._jvm.java.io.FileInputStream, local)
        stream = self._call(target, system.create, path, True)
        self._call(
            target,
            self._jvm.org.apache.hadoop.io.IOUtils.copyBytes,
            source,
            stream,
            self._conf,
            True,
        )

    def fetch(self, file: str, scratch: Path) -> Path:
        """Return a local path of the file: its own, or that of a copy in `scratch`."""
        local = self.local_path(file)
        if local is not None:
            return local
        path, system = self._path(file)
        copy = scratch / str(path.getName())
        target = self._jvm.org.apache.hadoop.fs.Path(f"file://{copy}")
        self._call(file, system.copyToLocalFile, False, path, target, True)
        return copy

    def _rename(self, file: str, name: str) -> None:
        path, system = self._path(file)
        target, _ = self._path(name)
        if not self._call(file, system.rename, path, target):
            raise PipelineError(
                f"{file} can't be renamed to {name}. If another process writes here, run only one"
            )

    def _path(self, text: str) -> tuple[Any, Any]:
        path = self._call(repr(text), self._jvm.org.apache.hadoop.fs.Path, text)
        try:
            return path, path.getFileSystem(self._conf)
        except Py4JJavaError as error:
            thrown = error.java_exception
            if _is_missing_class(thrown):
                raise PipelineError(
                    f"{text}: Spark has no connector for {path.toUri().getScheme()}, or not all of it ({thrown.toString()}):"
                    " add it with spark.jars.packages, see docs/how-to/archive-in-a-store.md"
                ) from None
            raise PipelineError(f"{text}: {thrown.getMessage()}") from None
        except PySparkException as error:
            raise PipelineError(f"{text}: {reason_of(error)}") from None

    @staticmethod
    def _call(what: str, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Py4JJavaError as error:
            raise PipelineError(f"{what}: {error.java_exception.getMessage()}") from None
        except PySparkException as error:
            raise PipelineError(f"{what}: {reason_of(error)}") from None


def _is_missing_class(thrown: Any) -> bool:
    """Return whether a Java exception, or one of its causes, means that a file system's classes are not on the class path."""
    while thrown is not None:
        if thrown.getClass().getSimpleName() in _MISSING_CLASS:
            return True
        thrown = thrown.getCause()
    return False
