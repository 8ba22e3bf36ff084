"""The Spark session of tests: settings under which a few small queries cost least, and an archive of the classes that they use.

The JVM uses such an archive only with the jars that it was made from, at the same paths. Each checkout has its own jars, so they are
linked to one place outside of all checkouts, named by their content. Owns that place, and the run that makes the archive (`make programs`),
once for these jars and this Java. It does what tests do. Until it has ended, and where it fails, tests take longer. Source: JEP 350
(dynamic archives).

Usage: python -m support.quick_spark
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.archive_job import ArchiveJob
from quorum_pipeline.spark.class_archive_session import session_writing_class_archive
from quorum_pipeline.spark.class_data_sharing import cache_directory, classes_file
from quorum_pipeline.spark.frames import state_frame
from quorum_pipeline.spark.session import SPARK_HOME, open_session
from support.hadoop_archive import hadoop_uri
from support.source_tree import ROOT
from support.written_log import LogWriter, write_history

MASTER = "local[2]"
# A few small queries: what a compiler would make of them costs more than to run them as they are. Spark's classes are not
# verified, as each of some ten thousand would be for these few; they have room without a collection of garbage.
QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote -XX:MetaspaceSize=256m",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
}
_LINKED = ("bin", "jars", "python")
"""What Java needs of Spark's home, and its Python workers."""
_BYTECODE = "__pycache__"
_KEEP_SECONDS = 1_200.0


def open_quick_session() -> SparkSession:
    """Raises PipelineError."""
    return open_session("tests", MASTER, QUICK, home=kept_home())


def kept_home() -> Path | None:
    """The home whose classes are archived for the present Java; None if there is no such archive."""
    home = home_for(SPARK_HOME)
    file = None if home is None else classes_file(home / "jars")
    return home if file is not None and file.is_file() else None


def home_for(spark: Path) -> Path | None:
    """Where the files of an installed Spark are linked; it may not exist. None if the installation does not record their content."""
    records = sorted(spark.parent.glob("pyspark-*.dist-info/RECORD"))
    jars = spark / "jars"
    if len(records) != 1 or not jars.is_dir():
        return None
    wanted = tuple(f"{spark.name}/{each}/" for each in _LINKED)
    lines = [
        each
        for each in records[0].read_text().splitlines()
        if each.startswith(wanted) and _BYTECODE not in each
    ]
    # A jar that was added or replaced by hand is not in the record.
    there = [f"{each.name} {each.stat().st_size}" for each in jars.iterdir()]
    made_of = "\n".join([*sorted(lines), *sorted(there)])
    return cache_directory() / "spark-homes" / hashlib.sha256(made_of.encode()).hexdigest()[:16]


def link_home(spark: Path, home: Path) -> None:
    """Link an installation to its home, unless that exists. Raises OSError."""
    if home.is_dir():
        return
    home.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=home.parent) as scratch:
        made = Path(scratch) / home.name
        for each in _LINKED:
            ignored = shutil.ignore_patterns(_BYTECODE)
            shutil.copytree(spark / each, made / each, ignore=ignored, copy_function=_link)
        with suppress(OSError):  # another process was faster
            made.rename(home)
    assert home.is_dir(), home


def _link(source: str, target: str) -> None:
    """Link a file, or copy it to another file system with its time, which the JVM compares."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def write_class_archive() -> None:
    """Make the archive unless it exists, in a process of its own. Raises RuntimeError, OSError, SubprocessError."""
    home = home_for(SPARK_HOME)
    if home is None or classes_file(home / "jars") is None or kept_home() is not None:
        return
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if kept_home() is not None:
            return
        link_home(SPARK_HOME, home)
        done = subprocess.run(
            [sys.executable, "-m", "support.quick_spark"],
            cwd=ROOT / "tests",
            capture_output=True,
            text=True,
            timeout=_KEEP_SECONDS,
            check=False,
        )
    if done.returncode != 0 or kept_home() is None:
        raise RuntimeError(f"no classes were kept: {done.stderr[-2000:]}")


def _keep() -> None:
    home = home_for(SPARK_HOME)
    assert home is not None, "write_class_archive has linked it"
    file = classes_file(home / "jars")
    assert file is not None, "write_class_archive has found Java"
    few = {"spark.sql.shuffle.partitions": QUICK["spark.sql.shuffle.partitions"]}
    with (
        TemporaryDirectory() as scratch,
        session_writing_class_archive("keep classes", MASTER, file, few, home) as session,
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
    _keep()
