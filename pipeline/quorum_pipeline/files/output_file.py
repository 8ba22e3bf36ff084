"""Files that a command writes for its user. They have their names only when they are complete and synced.

Must not know what is in a file.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quorum_pipeline.errors import NO_SPACE, PipelineError
from quorum_pipeline.files.sealed_file import publish


@contextmanager
def completed(path: Path) -> Iterator[Path]:
    """The path to write to. It is renamed to `path` after the context, and removed after an error. A pipe or a device is written to
    directly. Raises OSError; PipelineError for one that names no file, such as that of a full disk.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    target = path.resolve()
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        yield unfinished
        publish(unfinished, target)
    except OSError as error:
        if error.filename is not None or error.errno not in NO_SPACE:
            raise
        raise PipelineError(f"{path} can't be written: {os.strerror(error.errno)}") from None
    finally:
        unfinished.unlink(missing_ok=True)
