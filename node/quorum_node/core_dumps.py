"""No core dumps: the memory of a node, an operator, a tool or a pipeline holds private keys, tokens and credentials.

Owns the limit. With 0 the kernel writes no file, but still passes the memory to a program of the host (systemd-coredump, apport, those
that collect dumps of pods), if `kernel.core_pattern` is a pipe; whether that one respects the limit is its own decision. With 1, too small
for a file, the kernel does neither.
Source: core(5) on pipes, and `do_coredump` of Linux, which reserves 1 for this.
"""

import resource

_NEITHER_FILE_NOR_PIPE = 1
"""In bytes."""


def forbid_core_dumps() -> None:
    """Disable core dumps of this process and those that it starts, permanently."""
    for limit in (_NEITHER_FILE_NOR_PIPE, 0):  # 0 where a lower limit is set already
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
        except (OSError, ValueError):
            continue
        return
