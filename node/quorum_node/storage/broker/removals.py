"""Delayed removal of files: they are renamed first, and removed after a delay.

Owns the queue. A segment keeps its descriptor until its removal, for reads that began before.
"""

from collections.abc import Sequence

from quorum_node.storage.broker.data_segment import DataSegment
from quorum_node.storage.file_system import FileSystem

DELETED_SUFFIX = ".deleted"


class Removals:
    """OSErrors are handled by the log."""

    __slots__ = ("_files", "_waiting")

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._waiting: list[tuple[int, DataSegment]] = []

    def add(self, segments: Sequence[DataSegment], due_ms: int, suffix: str = "") -> None:
        """Rename the files, in this order, and schedule their removal."""
        for segment in segments:
            segment.rename(suffix, DELETED_SUFFIX)
            self._waiting.append((due_ms, segment))

    def take_due(self, now_ms: int | None) -> list[DataSegment]:
        """The segments whose delay is over (None: all), closed. `remove` has to follow."""
        due = [each for each in self._waiting if now_ms is None or each[0] <= now_ms]
        for each in due:
            self._waiting.remove(each)
            each[1].close()
        return [segment for _, segment in due]

    def remove(self, due: Sequence[DataSegment]) -> None:
        """Remove the files of segments that were taken. That of a large file takes long: the file system frees its blocks."""
        for segment in due:
            for path in segment.paths():
                self._files.unlink(path, missing_ok=True)

    def leave(self) -> list[DataSegment]:
        """Leave the files for the next open, which removes them; returns the files to close."""
        left, self._waiting = [segment for _, segment in self._waiting], []
        return left
