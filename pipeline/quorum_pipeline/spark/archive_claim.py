"""The name of the writer of an archive in a file system without locks: the writer that began last is the only one.

A writer that was killed leaves its name, and the next one replaces it. An earlier writer that still runs finds another name
before its next step, and ends. There are no times in it, so that a slow or suspended writer can't go on beside its
successor, except for the one step (a rename or a deletion) that it had begun. A rename in an object store takes long, so that
the claim is checked again after it, and after the marker (`archive.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from quorum_pipeline.errors import PipelineError

if TYPE_CHECKING:
    from quorum_pipeline.spark.hadoop_files import HadoopFiles

CLAIM = "_writer"


class Claim:
    """The name of this writer in an archive. Every call may raise PipelineError."""

    def __init__(self, files: HadoopFiles, uri: str) -> None:
        self._files, self._file = files, f"{uri}/{CLAIM}"
        self._name = str(uuid4())

    def take(self) -> None:
        """Replace the name of an earlier writer. Raises PipelineError if another writer does the same now."""
        self._files.delete(self._file)
        self._files.write(self._file, self._name)

    def check(self) -> None:
        """Raise PipelineError if another writer has begun since."""
        if self._files.read(self._file) != self._name:
            raise PipelineError(
                f"another process has begun to write this archive, by {self._file}: only one may write to an archive"
            )

    def give_back(self) -> None:
        """Delete the name, unless another writer has begun."""
        if self._files.read(self._file) == self._name:
            self._files.delete(self._file)
