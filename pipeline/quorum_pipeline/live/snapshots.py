"""The newest snapshot of a running quorum, as a file. Owns the download and its check; knows no Spark."""

from pathlib import Path

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.snapshot_file import SnapshotFile
from quorum_pipeline.live.quorum import Quorum


def download_snapshot(quorum: Quorum, directory: Path) -> SnapshotFile:
    """Whole and verified. Raises PipelineError: there is none, or it is damaged."""
    named = quorum.newest_snapshot()
    if named is None:
        raise PipelineError(f"{quorum.leader} has no snapshot: its log has everything")
    file = SnapshotFile(directory / named.file_name, named)
    position, size = 0, 1
    with file.path.open("wb") as target:
        while position < size:
            data, size = quorum.snapshot_part(named, position)
            if not data:
                raise PipelineError(f"{quorum.leader} gave nothing of {named} at byte {position}")
            target.write(data)
            position += len(data)
    file.bounds()
    return file
