"""A lock for the writer of an archive in the local file system, because two writers would write the same micro
batches.

The kernel releases the lock when the process ends. On other file systems a writer stops when it finds a range that it did not write.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quorum_node.exclusive_lock import try_to_lock
from quorum_pipeline.errors import PipelineError

LOCK = "_lock"


@contextmanager
def only_writer(archive: Path) -> Iterator[None]:
    """Hold the lock during the context. Raises PipelineError if another process holds it, or the directory is not
    writable.
    """
    try:
        archive.mkdir(parents=True, exist_ok=True)
        file = os.open(archive / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise PipelineError(f"{archive} can't be written to: {error.strerror}") from None
    try:
        if not try_to_lock(file):
            raise PipelineError(
                f"another process writes the archive {archive}: wait until it ends, or stop it"
            )
        yield
    finally:
        os.close(file)
