"""How many files the process may have open: as many connections as its listeners allow, its own files, and those of a broker's logs."""

import resource

import structlog

_OWN_FILES = 512
"""Segments, snapshots, connections to peers, and files of the interpreter."""
_MOST_FILES = 1 << 20
"""If the hard limit is infinite."""
_FILES_OF_LOGS = 8_192
"""A broker with a lower limit of files for its logs is warned."""


def allow_connections(count: int, *, has_logs: bool = False) -> None:
    """Raise the soft limit of open files if it is too low for so many connections; log a warning if the hard limit is too low.

    `has_logs`: the process is a broker. Each segment of its logs is an open file, and their number is not known before. So the soft limit is
    raised to the hard one, as the JVM of a stock broker does. A log whose file can't be opened takes its directory offline.
    """
    needed = count + _OWN_FILES + _FILES_OF_LOGS * has_logs
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else hard
    wanted = most if has_logs else needed
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = min(wanted, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft != resource.RLIM_INFINITY and soft < needed:
        logs = ", and each segment of a log is an open file" if has_logs else ""
        structlog.get_logger("quorum_node").warning(
            f"max.connections of all listeners is {count}{logs}, but the process may have {soft} files open: raise"
            " its limit of open files (ulimit -n), or lower max.connections"
        )
