"""The failure latch: a storage failure outlives the process, on another filesystem than the data and on this one.

The first lives in a directory that a restart of the container keeps and a new incarnation does not share (an
emptyDir in a pod). The second, the file `storage-failed` in the data directory, goes wherever the disk goes, if the
disk still takes it. Either one is enough; without both the data is judged anew, from what the disk holds (`log_end`).
A `formatted` marker beside the latch refuses a second format by the same pod:
a data directory that was formatted once and is empty now was lost, not new.
"""

import contextlib
import json
import threading
from pathlib import Path

from quorum_node.storage.atomic_file import replace_file
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.meta_properties import FILE_NAME as META_PROPERTIES

FORMATTED_MARKER = "formatted"
FAILURE_MARK = "storage-failed"


class FailureLatch:
    """`path` None means: no latch configured beside the data. `data_dir` None: no mark in it."""

    def __init__(self, path: Path | None, data_dir: Path | None = None) -> None:
        self._path = path
        self._data_dir = data_dir

    def read(self) -> str | None:
        """The message latched by an earlier process, or None."""
        found = (_read(mark) for mark in self._marks())
        return next((message for message in found if message is not None), None)

    def places(self) -> str:
        """Which files latch, for people."""
        return " and ".join(map(str, self._marks()))

    def write(self, termination_message: str) -> None:
        """Latch beside the data; the first failure stays. Best effort: the exit goes on if even this disk fails."""
        if self._path is None or self._path.exists():
            return
        with contextlib.suppress(StorageFailure, DiskFull):
            replace_file(self._path, termination_message.encode())

    def mark_data(self, termination_message: str, timeout_seconds: float) -> None:
        """Latch on the data volume too, if it takes it in time; the first failure stays.

        Only where there is data: an empty directory may be what is left when the volume is not mounted.
        """
        if self._data_dir is None:
            return
        thread = threading.Thread(
            target=_mark, args=(self._data_dir, termination_message.encode()), daemon=True
        )
        thread.start()
        thread.join(timeout_seconds)

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

    def _marks(self) -> list[Path]:
        in_data = None if self._data_dir is None else self._data_dir / FAILURE_MARK
        return [mark for mark in (self._path, in_data) if mark is not None]

    def _marker(self) -> Path | None:
        return None if self._path is None else self._path.with_name(FORMATTED_MARKER)


def _read(mark: Path) -> str | None:
    try:
        text = mark.read_text(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"the failure latch {mark} can't be read ({error.strerror})"
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip() or "an empty failure latch"


def _mark(data_dir: Path, content: bytes) -> None:
    mark = data_dir / FAILURE_MARK
    with contextlib.suppress(StorageFailure, DiskFull, OSError):
        if (data_dir / META_PROPERTIES).exists() and not mark.exists():
            replace_file(mark, content)
