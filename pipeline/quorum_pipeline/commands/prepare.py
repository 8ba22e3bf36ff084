"""`quorum-pipeline prepare`: compiles loops and builds a class archive for the JVM once, instead of at each start. It is
optional and saves some seconds per run.
"""

import argparse
import subprocess
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from quorum_node.records.batches import encode_values
from quorum_node.records.metadata import NoOpRecord, encode_metadata
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import open_log

_JAVA_ENDS_SECONDS = 600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See `--help`."""
    parser.add_argument("--master", default="local[2]", help="of Spark; default local[2]")


def run(arguments: argparse.Namespace) -> int:
    """Archive a log of one record, and let the JVM write its class archive. Raises PipelineError, OSError."""
    from quorum_pipeline.spark.archive import Archive
    from quorum_pipeline.spark.archive_job import ArchiveJob
    from quorum_pipeline.spark.kept_classes import classes_file
    from quorum_pipeline.spark.session import SPARK_HOME, open_session

    progress = Progress("preparing", "offsets")
    file = classes_file(SPARK_HOME / "jars")
    if file is None:
        raise PipelineError("Spark needs Java 17: put `java` on the path, or set JAVA_HOME")
    # The loops of the `state` command, here and on executors, are compiled at import.
    import_module("quorum_pipeline.state.squeezed")
    fresh = file.with_suffix(".new")
    with TemporaryDirectory(prefix="quorum-pipeline-") as scratch:
        _write_log(Path(scratch) / "log")
        session = open_session(
            "quorum-pipeline prepare", arguments.master, rows_in_jvm=False, keep_classes=fresh
        )
        gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - there is no public way
        java: subprocess.Popen[bytes] = gateway.proc
        try:
            archive = Archive(session, str(Path(scratch) / "archive"))
            job = ArchiveJob(archive, open_log(Path(scratch) / "log"), 1, None)
            job.run(progress, progress.say)
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
    print(f"Spark's classes are in {file}; {progress.seconds:.1f} s")
    return 0


def _write_log(directory: Path) -> None:
    directory.mkdir()
    batch = encode_values(
        base_offset=0, leader_epoch=1, timestamp_ms=0, values=[encode_metadata(NoOpRecord())]
    )
    (directory / f"{0:020d}.log").write_bytes(batch)
