"""Folders of tests in memory: thousands of unit tests sync small files, and a third of their time was waiting for the disk.

What a sync means is tested elsewhere: with a simulated disk that loses what was not synced, and with processes on the real one.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MEMORY = Path("/dev/shm")
ON_DISK = "METADATAQUORUM_TESTS_ON_DISK"
LEAST_FREE_BYTES = 2 << 30
_PREFIX = "metadataquorum-tests-"


@contextmanager
def memory_folder(parent: Path = MEMORY) -> Iterator[Path | None]:
    """A folder that is deleted at the end; None where there is too little memory for it, or the environment wants the disk."""
    if os.environ.get(ON_DISK) or not _has_room(parent):
        yield None
        return
    _delete_abandoned(parent)
    with tempfile.TemporaryDirectory(
        dir=parent, prefix=f"{_PREFIX}{os.getpid()}-", ignore_cleanup_errors=True
    ) as name:
        yield Path(name)


def _has_room(parent: Path) -> bool:
    try:
        found = os.statvfs(parent)
        memory = Path("/proc/meminfo").read_text()
    except OSError:
        return False
    available = re.search(r"^MemAvailable: +(\d+) kB", memory, re.MULTILINE)
    free = min(found.f_bavail * found.f_frsize, int(available[1]) << 10 if available else 0)
    return os.access(parent, os.W_OK) and free >= LEAST_FREE_BYTES


def _delete_abandoned(parent: Path) -> None:
    """Folders of test processes that were killed would keep their memory."""
    for each in parent.glob(f"{_PREFIX}*"):
        owner = each.name.removeprefix(_PREFIX).split("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with suppress(OSError):
                shutil.rmtree(each)
