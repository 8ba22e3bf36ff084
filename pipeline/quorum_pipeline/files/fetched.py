"""A task on files of an archive that this machine does not mount.

The executor first copies the task's files to a directory with the layout of the archive (`spark/fetched_rows.py`).
Then the readers of a mounted archive read them there, with checksums. Errors name the archive, not the directory.
Must not know Spark.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

from quorum_pipeline.errors import PipelineError


class ArchiveTask(Protocol):
    """A task whose paths may be relative to the root of an archive."""

    def under(self, root: Path) -> Self:
        """Return the same task for an archive with this root."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A task with its files. `task` has paths relative to the root of an archive, whose URI is `root`. `files`: all files that
    it reads, also relative. `texts`: small files with their content. `directory`: where the files were copied to. Other
    methods are those of the task.
    """

    task: Any
    root: str
    files: tuple[str, ...]
    texts: tuple[tuple[str, str], ...] = ()
    directory: Path | None = None

    @property
    def uris(self) -> tuple[str, ...]:
        """URIs of the files."""
        return tuple(f"{self.root}/{file}" for file in self.files)

    def at(self, directory: Path) -> "Fetched":
        """Return the task with its files in a directory. Raises OSError."""
        for file, text in self.texts:
            path = directory / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return replace(self, directory=directory)

    def compacted(self) -> Any:
        """See `reduced_span.SpanTask`."""
        with self._named():
            return self._here().compacted()

    def reduced(self) -> Any:
        """See `reduced_span.SpanTask`."""
        with self._named():
            return self._here().reduced()

    @property
    def file(self) -> str:
        """See `archive_tasks.DeltaTask`; empty for other tasks."""
        file: str = getattr(self.task, "file", "")
        return file

    def deltas(self) -> Iterator[Any]:
        """See `archive_tasks.DeltasTask`."""
        with self._named():
            yield from self._here().deltas()

    @property
    def start(self) -> int:
        """See `version_spans.VersionTask`."""
        start: int = self.task.start
        return start

    @property
    def end(self) -> int:
        """See `version_spans.VersionTask`."""
        end: int = self.task.end
        return end

    def records(self) -> Iterator[Any]:
        """See `version_spans.VersionTask`."""
        with self._named():
            yield from self._here().records()

    def read(self) -> Any:
        """See `timeline_span.LogTask`."""
        with self._named():
            return self._here().read()

    def audited(self) -> Any:
        """See `audited_span.AuditSpan`."""
        found = self._here().audited()
        found.damages = [
            (place, offset, self._in_archive(reason)) for place, offset, reason in found.damages
        ]
        return found

    def block(self, begin: int, end: int) -> Any:
        """See `audited_archive.AuditRange`."""
        return self._here().block(begin, end)

    def damage(self) -> tuple[int | None, str] | None:
        """See `reduced_span.SnapshotTask`."""
        found = self._here().damage()
        return None if found is None else (found[0], self._in_archive(found[1]))

    def _here(self) -> Any:
        if self.directory is None or not self.directory.is_dir():
            raise AssertionError("the task is run while its files are there")
        return self.task.under(self.directory)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except PipelineError as error:
            raise PipelineError(self._in_archive(str(error))) from None

    def _in_archive(self, text: str) -> str:
        return text.replace(str(self.directory), self.root)
