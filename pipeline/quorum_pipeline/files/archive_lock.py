"""One at a time: who writes an archive in this machine's file system holds a lock on it for so long.

Two would write the same micro batches into the same directories. Owns the lock. The kernel lets go of it when the process ends, however that ends;
on other file systems it is Spark's checkpoint that ends one of two.
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
    """For as long as the context is. Raises PipelineError: somebody else is, or the directory can't be written to."""
    try:
        archive.mkdir(parents=True, exist_ok=True)
        file = os.open(archive / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise PipelineError(f"{archive} can't be written to: {error.strerror}") from None
    try:
        if not try_to_lock(file):
            raise PipelineError(f"another process writes the archive {archive}")
        yield
    finally:
        os.close(file)
