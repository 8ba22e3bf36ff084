"""Error messages for a program whose required packages are not installed. Imports nothing else."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def advice(extra: str) -> str:
    """How to install an extra. The project is in no package index, and its name there may be another one's."""
    return (
        f"Install the dependencies: pip install '.[{extra}]' in the project's repository, or the extra {extra} of a"
        " release's wheel (docs/how-to/install.md)"
    )


@contextmanager
def brought_by(extra: str) -> Iterator[None]:
    """Context manager around the imports of a program. A missing package is reported with its
    extra.

    Raises SystemExit with a one-line message. A missing module of this project is a bug and is not
    caught.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing.startswith("quorum_"):
            raise
        program = Path(sys.argv[0]).name
        raise SystemExit(
            f"{program}: the Python package {missing} is not installed. {advice(extra)}"
        ) from None
