"""The snapshot before the first record of a mounted archive. It is synced before it gets its name.

Without it the archive has no state, and the log may not have the earlier records any more.
"""

import shutil
from pathlib import Path

from quorum_pipeline.archive.layout import RECORDS, SNAPSHOTS, WRITING
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.sealed_file import publish, sync_directory


def store_snapshot(root: Path, snapshot: Path) -> None:
    """Copy a snapshot to an archive, in place of one of that name. Raises PipelineError if it can't be copied."""
    unfinished = root / RECORDS / WRITING / snapshot.name
    target = root / SNAPSHOTS / snapshot.name
    try:
        for each in (unfinished, target):
            each.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(snapshot, unfinished)
        publish(unfinished, target)
        sync_directory(root)
    except OSError as error:
        raise PipelineError(f"{snapshot} is not stored in {root}: {error}") from None
