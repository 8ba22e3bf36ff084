"""CPU time of this process and all that it started, from /proc, because the wall clock depends on other load.

The CPU of a process that has ended is counted in its parent, once that has waited for it; if its parent ended first, it is lost.
"""

import os
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_USER, _OF_WAITED = 11, 14
"""Fields of /proc/PID/stat after the name: user and system time of the process, then of its waited-for children."""


def spent_cpu_s() -> float:
    """CPU seconds, user and system, until now. 0.0 where there is no /proc."""
    waiting = [os.getpid()]
    ticks = 0
    while waiting:
        process = _PROC / str(waiting.pop())
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[_USER : _OF_WAITED + 1]))
            for thread in (process / "task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())
        except OSError:
            continue  # it has ended meanwhile
    return ticks / _TICKS_PER_SECOND
