"""A session whose JVM writes its classes to a file when it ends (`class_data_sharing.py`). Owns the end of that JVM."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.spark.session import open_session

_JAVA_ENDS_SECONDS = 600.0


@contextmanager
def session_writing_class_archive(
    name: str,
    master: str,
    file: Path,
    more: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> Iterator[SparkSession]:
    """Yield a session; afterwards `file` has the classes that were used in it. `home`: see `open_session`.

    Raises PipelineError, OSError.
    """
    fresh = file.with_suffix(".new")
    session = open_session(name, master, more, rows_in_jvm=False, class_archive=fresh, home=home)
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - there is no public way
    java: subprocess.Popen[bytes] = gateway.proc
    try:
        yield session
    finally:
        session.stop()
    # The JVM exits when its standard input is closed.
    assert java.stdin is not None
    java.stdin.close()
    try:
        java.wait(_JAVA_ENDS_SECONDS)
    except subprocess.TimeoutExpired:
        java.kill()
        raise PipelineError(f"Java did not exit within {_JAVA_ENDS_SECONDS:.0f} s") from None
    if not fresh.is_file():
        raise PipelineError(
            f"this Java wrote no class archive to {fresh}: later runs only start more slowly"
        )
    fresh.replace(file)
