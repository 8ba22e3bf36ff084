"""No core dumps: the memory of a node, an operator or a pipeline holds private keys, tokens and credentials.

Sets the limit only: a handler to which the host pipes core dumps (such as systemd-coredump) applies the limit itself.
"""

import contextlib
import resource


def forbid_core_dumps() -> None:
    """Disable core dumps of this process and those that it starts, permanently."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
