"""Reads the synced and the committed end of a log, as its node recorded them.

Only a directory that was last written by this software has such a record (`synced-end`). Must not know segments.
"""

from pathlib import Path

from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.quorum_state_checksum import has_checksum
from quorum_node.storage.synced_end import RecordedEnd, read_synced_end

__all__ = ["RecordedEnd", "recorded_end"]


def recorded_end(directory: Path) -> RecordedEnd | None:
    """Return the recorded end; None if there is none, it is damaged, or other software wrote the directory last.

    Raises OSError.
    """
    try:
        return read_synced_end(directory) if has_checksum(directory) else None
    except StorageFailure:
        return None
