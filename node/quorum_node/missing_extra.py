"""Error messages for a program whose required packages are not installed. Imports nothing else."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
            f"{program}: the Python package {missing} is not installed. Install the dependencies:"
            f" pip install 'metadataquorum[{extra}]'"
        ) from None
