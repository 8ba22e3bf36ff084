"""Copies compiled loops from a read-only directory of an image.

Numba ignores a cache directory that is not writable; each process would then compile for 15 s of CPU. So a process
makes a writable copy and passes it to its child processes. Loops for another CPU or other code are compiled again
into the copy. Must not import numba. Source: Numba's documentation, "Environment variables" (NUMBA_CACHE_DIR) and
"Notes on Caching".
"""

import atexit
import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

_DIRECTORY = "NUMBA_CACHE_DIR"


def use_loop_cache() -> None:
    """Copy the loops; call it before numba is imported. Without room for a copy each process compiles for itself."""
    kept = Path(os.environ.get(_DIRECTORY) or os.devnull)
    if not kept.is_dir() or os.access(kept, os.W_OK):
        return
    try:
        copy = Path(mkdtemp(prefix="quorum-pipeline-loops-"))
    except OSError:
        return
    atexit.register(_remove, copy, os.getpid())
    try:
        # File modes are not copied: read-only files would be of no use.
        shutil.copytree(kept, copy, copy_function=shutil.copyfile, dirs_exist_ok=True)
        for each in (copy, *copy.iterdir()):
            each.chmod(0o700)
    except (OSError, shutil.Error):
        return
    os.environ[_DIRECTORY] = str(copy)


def _remove(copy: Path, owner: int) -> None:
    """Remove the copy, but not in processes forked from this one, as they end earlier."""
    if os.getpid() == owner:
        shutil.rmtree(copy, ignore_errors=True)
