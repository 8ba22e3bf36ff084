"""`quorum-pipeline prepare`: compiles loops and builds a class archive for the JVM once, instead of at each start. It is
optional and saves some seconds per run.
"""

import argparse
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from quorum_node.records.batches import encode_values
from quorum_node.records.metadata import NoOpRecord, encode_metadata
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import open_log


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See `--help`."""
    parser.add_argument("--master", default="local[2]", help="of Spark; default local[2]")


def run(arguments: argparse.Namespace) -> int:
    """Archive a log of one record, and let the JVM write its class archive. Raises PipelineError, OSError."""
    from quorum_pipeline.spark.archive import Archive
    from quorum_pipeline.spark.archive_job import ArchiveJob
    from quorum_pipeline.spark.class_archive_session import session_writing_class_archive
    from quorum_pipeline.spark.class_data_sharing import classes_file
    from quorum_pipeline.spark.session import SPARK_HOME

    progress = Progress("preparing", "offsets")
    file = classes_file(SPARK_HOME / "jars")
    if file is None:
        raise PipelineError("Spark needs Java 17: put `java` on the path, or set JAVA_HOME")
    # The loops of the `state` command, here and on executors, are compiled at import.
    import_module("quorum_pipeline.state.compacted")
    with TemporaryDirectory(prefix="quorum-pipeline-") as scratch:
        _write_log(Path(scratch) / "log")
        with session_writing_class_archive(
            "quorum-pipeline prepare", arguments.master, file
        ) as session:
            archive = Archive(session, str(Path(scratch) / "archive"))
            job = ArchiveJob(archive, open_log(Path(scratch) / "log"), 1, None)
            job.run(progress, progress.report)
    print(f"Spark's classes are in {file}; {progress.seconds:.1f} s")
    return 0


def _write_log(directory: Path) -> None:
    directory.mkdir()
    batch = encode_values(
        base_offset=0, leader_epoch=1, timestamp_ms=0, values=[encode_metadata(NoOpRecord())]
    )
    (directory / f"{0:020d}.log").write_bytes(batch)
