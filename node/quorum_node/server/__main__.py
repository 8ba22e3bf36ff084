"""The command `quorum-node`: loads the node, then runs it.

Owns how it is loaded: without collecting garbage on the way. What importing makes lives as long as the
process, and looking through it again and again was a quarter of the time that a node takes to start.
"""

import gc
import sys

from quorum_node.missing_extra import brought_by


def main() -> int:
    """Run the node; returns the exit code. Collection is on again before anything is opened."""
    gc.disable()
    with brought_by("node"):
        from quorum_node.server.process.main import main as run

    gc.enable()
    return run()


if __name__ == "__main__":
    sys.exit(main())
