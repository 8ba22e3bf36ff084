"""The command `quorum-node`: loads the node, then runs it.

Garbage collection is off while the modules are loaded: their objects live as long as the process, and scanning them repeatedly took a
quarter of the start time.
"""

import gc
import sys

from quorum_node.missing_extra import brought_by


def main() -> int:
    """Run the node; returns the exit code. Garbage collection is on again before anything is opened."""
    gc.disable()
    with brought_by("node"):
        from quorum_node.server.process.main import main as run

    gc.enable()
    return run()


if __name__ == "__main__":
    sys.exit(main())
