"""No core dumps: the memory of a node holds private keys, tokens and credentials.

Owns that nothing else is changed: a handler that the host pipes dumps to (systemd-coredump, for one) heeds the limit by itself.
"""

import contextlib
import resource


def forbid_core_dumps() -> None:
    """For this process, for good."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
