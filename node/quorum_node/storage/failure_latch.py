"""The failure latch: a mark that a storage failure leaves for later processes, on another file
system and on the data volume.

The first mark is in a directory that a restart of the container keeps and a new incarnation does
not share (an emptyDir in a pod). The second mark, the file `storage-failed` in the data directory,
stays with the disk, if it can still be written. One of them is sufficient. Without both, the data
is checked again at the next start (`log_end`). A `formatted` mark beside the latch prevents a
second format by the same pod: a data directory that was formatted before and is empty now was lost.
"""

import contextlib
import threading
from pathlib import Path

from quorum_node.json_text import read_json
from quorum_node.storage.atomic_file import read_file, replace_file
from quorum_node.storage.errors import DiskFull, OutOfResources, StorageFailure, classify
from quorum_node.storage.meta_properties import FILE_NAME as META_PROPERTIES

FORMATTED_MARKER = "formatted"
FAILURE_MARK = "storage-failed"


class FailureLatch:
    """`path` None: no latch is configured besides the data. `data_dir` None: no mark in it."""

    def __init__(self, path: Path | None, data_dir: Path | None = None) -> None:
        self._path = path
        self._data_dir = data_dir

    def read(self) -> str | None:
        """The message of an earlier process, or None. Raises OutOfResources."""
        found = (_read(mark) for mark in self._marks())
        return next((message for message in found if message is not None), None)

    def places(self) -> str:
        """Paths of the existing marks, for messages."""
        return " and ".join(map(str, self._marks()))

    def write(self, termination_message: str) -> None:
        """Write the mark besides the data; the first failure is kept.

        Best effort: the exit continues if this disk fails as well.
        """
        if self._path is None:
            return
        with contextlib.suppress(StorageFailure, DiskFull, OSError):
            if not self._path.exists():
                replace_file(self._path, termination_message.encode())

    def mark_data(self, termination_message: str, timeout_seconds: float) -> None:
        """Write the mark on the data volume if it can be written in time; the first failure is kept.

        Only if there is data: an empty directory may be an unmounted volume.
        """
        if self._data_dir is None:
            return
        thread = threading.Thread(
            target=_mark, args=(self._data_dir, termination_message.encode()), daemon=True
        )
        thread.start()
        thread.join(timeout_seconds)

    def formatted_identity(self) -> str | None:
        """Identity with which an earlier process of this pod formatted the data directory.

        Raises StorageFailure, DiskFull.
        """
        marker = self._marker()
        content = None if marker is None else read_file(marker)
        return None if content is None else content.decode(errors="replace").strip()

    def mark_formatted(self, identity: str) -> None:
        """Record that this pod has formatted its directory. Raises StorageFailure, DiskFull."""
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
        failure = classify(error, f"read {mark}")
        if isinstance(failure, OutOfResources):
            raise failure from error
        return f"the failure latch {mark} can't be read ({error.strerror})"
    try:
        return str(read_json(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip() or "the failure latch is empty"


def _mark(data_dir: Path, content: bytes) -> None:
    mark = data_dir / FAILURE_MARK
    with contextlib.suppress(StorageFailure, DiskFull, OSError):
        if (data_dir / META_PROPERTIES).exists() and not mark.exists():
            replace_file(mark, content)
