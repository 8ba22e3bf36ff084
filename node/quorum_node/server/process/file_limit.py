"""How many files the process may have open: as many connections as its listeners allow, and its own files."""

import resource

import structlog

_OWN_FILES = 512
"""Segments, snapshots, connections to peers, and files of the interpreter."""


def allow_connections(count: int) -> None:
    """Raise the soft limit of open files if it is too low for so many connections; log a warning if the hard limit is too low."""
    wanted = count + _OWN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted or soft == resource.RLIM_INFINITY:
        return
    reached = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (reached, hard))
    if reached < wanted:
        structlog.get_logger("quorum_node").warning(
            f"max.connections of all listeners is {count}, but the process may have {reached} files open: raise"
            " its limit of open files (ulimit -n), or lower max.connections"
        )
