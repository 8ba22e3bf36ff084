"""Starts the operator: `python -m quorum_operator`, or the console script `quorum-operator`.

Disables garbage collection during the imports, because imported objects live as long as the process.
"""

import gc

from quorum_node.missing_extra import brought_by
from quorum_operator.usage import parse


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    parse()
    gc.disable()
    with brought_by("operator"):
        from quorum_operator.run import main as run

    gc.enable()
    run()


if __name__ == "__main__":
    main()
