"""The Spark session of tests: settings under which a few small queries cost least, and an archive of the classes that they use.

Owns the run that makes the archive (`make programs`), once for an environment and a Java. It does what tests do, so that their classes
are in it. Without the archive tests take longer. Source: JEP 350 (dynamic archives).

Usage: python -m support.quick_spark FILE
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.archive_job import ArchiveJob
from quorum_pipeline.spark.class_keeper import session_that_keeps_classes
from quorum_pipeline.spark.frames import state_frame
from quorum_pipeline.spark.kept_classes import classes_file, options_to_use
from quorum_pipeline.spark.session import SPARK_HOME, open_session
from support.hadoop_archive import hadoop_uri
from support.source_tree import ROOT
from support.written_log import LogWriter, write_history

MASTER = "local[2]"
_KEEP_SECONDS = 1_200.0
_SETTINGS = {"spark.sql.shuffle.partitions": "2"}
_JAVA = (
    "-XX:+UseSerialGC -Xshare:auto"
    # No collections of garbage only because classes are loaded.
    " -XX:MetaspaceSize=256m"
    # Spark's classes are not verified, as each of some ten thousand would be for a few queries.
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


def open_quick_session() -> SparkSession:
    """What a compiler would make of a few small queries costs more than to run them as they are. Raises PipelineError."""
    java = f"{_JAVA} {options_to_use(kept_classes_file())}"
    settings = _SETTINGS | {"spark.driver.extraJavaOptions": java}
    return open_session("tests", MASTER, settings, rows_in_jvm=False)


def kept_classes_file() -> Path | None:
    """The archive for this environment's Spark and the present Java, which may not exist. It is deleted with the environment."""
    jars = SPARK_HOME / "jars"
    file = classes_file(jars)
    if file is None:
        return None
    # The JVM ignores an archive of jars that were replaced.
    return Path(sys.prefix) / "spark-classes" / f"{file.stem}-{jars.stat().st_mtime_ns:x}.jsa"


def keep_classes() -> None:
    """Make the archive unless it exists, in a process of its own. Raises RuntimeError, OSError, SubprocessError."""
    file = kept_classes_file()
    if file is None or file.exists():
        return
    done = subprocess.run(
        [sys.executable, "-m", "support.quick_spark", str(file)],
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        timeout=_KEEP_SECONDS,
    )
    if done.returncode != 0:
        raise RuntimeError(f"no classes were kept: {done.stderr[-2000:]}")


def _keep(file: Path) -> None:
    with (
        TemporaryDirectory() as scratch,
        session_that_keeps_classes("keep classes", MASTER, file, _SETTINGS) as session,
    ):
        _use(session, Path(scratch))


def _use(spark: SparkSession, root: Path) -> None:
    """An archive where executors can't write, and every way to read rows."""
    writer = LogWriter(root / "node", segment_bytes=2_000)
    write_history(writer)
    writer.snapshot()
    writer.close()
    log, uri = str(writer.directory), hadoop_uri(spark, root / "archive")
    archive = Archive(spark, uri)
    archive.state_rows = 10
    for max_rows in (30, 1_000):
        ArchiveJob(archive, open_log(writer.directory), max_rows, None).run(lambda end: None, print)
    archive.compact(1_000, print)
    archive.read().select("offset", "type").orderBy("offset").collect()
    for name in ("metadata_log", "metadata_snapshot"):
        frame = spark.read.format(name).load(log)
        frame.where("topic IS NOT NULL").select("type", "topic.name").collect()
    state_frame(spark, path=uri, table="partitions", versionAsOf="52").collect()


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
