"""A machine's own Python, which has neither the project nor what it depends on, for programs that have to do without; and mounts."""

import sys
from pathlib import Path

BARE = f"{sys.executable} -I -S"


def mount_points() -> list[str]:
    """Of this mount namespace."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines]
