"""The failure latch: a storage failure outlives the process, on another filesystem than the data.

Lives in a directory that a restart of the container keeps and a new incarnation does not share (an
emptyDir in a pod). A `formatted` marker beside the latch refuses a second format by the same pod:
a data directory that was formatted once and is empty now was lost, not new.
"""

import contextlib
import json
from pathlib import Path

from quorum_node.storage.atomic_file import replace_file
from quorum_node.storage.errors import DiskFull, StorageFailure

FORMATTED_MARKER = "formatted"


class FailureLatch:
    """`path` None means: no latch configured, nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self) -> str | None:
        """The message latched by an earlier process, or None."""
        if self._path is None:
            return None
        try:
            text = self._path.read_text(errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"the failure latch {self._path} can't be read ({error.strerror})"
        try:
            return str(json.loads(text)["message"])
        except (ValueError, KeyError, TypeError):
            return text.strip() or "an empty failure latch"

    def write(self, termination_message: str) -> None:
        """Latch; the first failure stays. Best effort: the exit goes on if even this disk fails."""
        if self._path is None or self._path.exists():
            return
        with contextlib.suppress(StorageFailure, DiskFull):
            replace_file(self._path, termination_message.encode())

    def formatted_identity(self) -> str | None:
        """What an earlier process of this pod formatted the data directory as."""
        marker = self._marker()
        if marker is None or not marker.exists():
            return None
        return marker.read_text(errors="replace").strip()

    def mark_formatted(self, identity: str) -> None:
        """Remember that this pod has formatted its directory. Raises StorageFailure, DiskFull."""
        marker = self._marker()
        if marker is not None:
            replace_file(marker, identity.encode())

    def _marker(self) -> Path | None:
        return None if self._path is None else self._path.with_name(FORMATTED_MARKER)
