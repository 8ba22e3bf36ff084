"""Compiled loops that an image brings, in a directory that can only be read there.

Numba passes over a directory in which it can't write, with all that is kept there: each process would compile for itself, which takes
15 s of CPU. So a process makes a copy that it may write to; the processes that it starts are told of it, too. What was not compiled for this CPU,
or not of this code, is then compiled anew and kept in the copy. Owns that copy; must not know numba, which is imported later.

Source: Numba's documentation, "Environment variables" (NUMBA_CACHE_DIR) and "Notes on Caching".
"""

import atexit
import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

_DIRECTORY = "NUMBA_CACHE_DIR"


def use_kept_loops() -> None:
    """Before numba is imported. Without room for a copy nothing changes: then each process compiles for itself."""
    kept = Path(os.environ.get(_DIRECTORY) or os.devnull)
    if not kept.is_dir() or os.access(kept, os.W_OK):
        return
    try:
        copy = Path(mkdtemp(prefix="quorum-pipeline-loops-"))
    except OSError:
        return
    atexit.register(_remove, copy, os.getpid())
    try:
        # Modes are those of a directory of ours: those that can only be read would be of no use.
        shutil.copytree(kept, copy, copy_function=shutil.copyfile, dirs_exist_ok=True)
        for each in (copy, *copy.iterdir()):
            each.chmod(0o700)
    except (OSError, shutil.Error):
        return
    os.environ[_DIRECTORY] = str(copy)


def _remove(copy: Path, owner: int) -> None:
    """Not in processes that were forked from this one: they end earlier."""
    if os.getpid() == owner:
        shutil.rmtree(copy, ignore_errors=True)
