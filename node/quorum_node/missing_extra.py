"""What a program says when packages that it runs on are not installed. Imports nothing else."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def brought_by(extra: str) -> Iterator[None]:
    """Around the imports of a program: names the extra of the distribution that brings a missing package.

    Raises SystemExit with one line. A missing module of our own is a defect, and stays what it is.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing.startswith("quorum_"):
            raise
        program = Path(sys.argv[0]).name
        raise SystemExit(
            f"{program}: the Python package {missing} is not installed. Install what it runs on:"
            f" pip install 'metadataquorum[{extra}]'"
        ) from None
