"""The command `quorum-backup`: loads it, or reports missing dependencies."""

import sys

from quorum_node.core_dumps import forbid_core_dumps
from quorum_node.missing_extra import brought_by


def main() -> int:
    """Run the command; returns the exit code."""
    forbid_core_dumps()
    with brought_by("node"):
        from quorum_node.archiver.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
