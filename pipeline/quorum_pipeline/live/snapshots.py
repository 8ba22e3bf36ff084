"""The newest snapshot of a running quorum, as a file. Owns the download and its verification. No Spark."""

from pathlib import Path

from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.snapshot_file import SnapshotFile
from quorum_pipeline.live.quorum import Quorum, SnapshotDeleted

_TRIES = 5
"""Number of attempts: a snapshot may be deleted, or the leader may change, during a download."""


def download_snapshot(quorum: Quorum, directory: Path) -> SnapshotFile:
    """Download and verify the newest snapshot; retry with the then newest one if it is deleted during the download.

    Raises PipelineError if there is none or it is damaged.
    """
    for left in reversed(range(_TRIES)):
        named = quorum.newest_snapshot()
        if named is None:
            raise PipelineError(f"{quorum.leader} has no snapshot: its log is complete")
        file = SnapshotFile(directory / named.file_name, named)
        try:
            _download(quorum, named, file.path)
        except SnapshotDeleted:
            file.path.unlink()
            if not left:
                raise
        else:
            file.bounds()
            return file
    raise AssertionError("the last try returns or raises")


def fetch_snapshot(quorum: Quorum, named: SnapshotId, directory: Path) -> SnapshotFile:
    """Download this snapshot. Raises PipelineError; it is verified when it is read."""
    file = SnapshotFile(directory / named.file_name, named)
    _download(quorum, named, file.path)
    return file


def _download(quorum: Quorum, named: SnapshotId, path: Path) -> None:
    position, size = 0, 1
    with path.open("wb") as target:
        while position < size:
            data, size = quorum.snapshot_part(named, position)
            if not data:
                raise PipelineError(
                    f"{quorum.leader} returned no data of {named} at byte {position}"
                )
            target.write(data)
            position += len(data)
