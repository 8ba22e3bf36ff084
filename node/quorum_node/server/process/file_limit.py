"""How many files the process may have open: as many connections as its listeners allow, its own files, and those of a broker's logs."""

import resource
from pathlib import Path

import structlog

_OWN_FILES = 512
"""Segments, snapshots, connections to peers, and files of the interpreter."""
_MOST_FILES = 1 << 20
"""If the hard limit is higher, or infinite: the usual maximum of the kernel."""
_FILES_OF_LOGS = 8_192
"""A broker with a lower limit of files for its logs is warned."""
_NR_OPEN = Path("/proc/sys/fs/nr_open")
"""The kernel's maximum (proc_sys_fs(5)). It can be lower than the hard limit, if it was lowered later."""


def allow_connections(count: int, *, has_logs: bool = False, nr_open: Path = _NR_OPEN) -> None:
    """Raise the soft limit of open files if it is too low for so many connections; log a warning if it can't be raised so far.

    `has_logs`: the process is a broker. Each segment of its logs is an open file, and their number is not known before. So the soft limit is
    raised to the hard one, but to at most 1,048,576, about as the JVM of a stock broker does. A process that can't open a file of
    its logs ends. `nr_open`: a file with the kernel's maximum.
    """
    needed = count + _OWN_FILES + _FILES_OF_LOGS * has_logs
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    kernel = _number_in(nr_open)
    if kernel is not None and (hard == resource.RLIM_INFINITY or hard > kernel):
        hard = kernel  # the kernel refuses a call that keeps a higher one
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else hard
    wanted = max(needed, min(most, _MOST_FILES)) if has_logs else needed
    why = ""
    if soft != resource.RLIM_INFINITY and soft < min(wanted, most):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, most), hard))
            soft = min(wanted, most)
        except (ValueError, OSError) as error:
            why = f", and raising the limit to {min(wanted, most)} failed ({error})"
    if soft != resource.RLIM_INFINITY and soft < needed:
        logs = ", and each segment of a log is an open file" if has_logs else ""
        structlog.get_logger("quorum_node").warning(
            f"max.connections of all listeners is {count}{logs}, but the process may have {soft} files open{why}: raise"
            " its limit of open files (ulimit -n), or lower max.connections"
        )


def _number_in(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
