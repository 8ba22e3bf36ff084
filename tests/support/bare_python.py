"""The machine's own Python, without the project and its dependencies, for programs that must not need them; and mounts."""

import sys
from pathlib import Path

BARE = f"{sys.executable} -I -S"


def mount_points() -> list[str]:
    """The mount points of this mount namespace."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines]
