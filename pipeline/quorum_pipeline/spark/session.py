"""A Spark session: on this machine by default, on whatever cluster is named otherwise.

Owns the settings that every job shares. What `spark-submit` or `spark-defaults.conf` (in `SPARK_CONF_DIR`) says stays as it is,
the master included, and so the same command runs on a cluster unchanged.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.spark.archive_source import MetadataArchive
from quorum_pipeline.spark.kept_classes import classes_file, options_to_make, options_to_use
from quorum_pipeline.spark.log_source import MetadataLog
from quorum_pipeline.spark.range_source import MetadataLogRanges
from quorum_pipeline.spark.reason import SparkError, reason_of
from quorum_pipeline.spark.snapshot_source import MetadataSnapshot
from quorum_pipeline.spark.state_source import MetadataChanges, MetadataState
from quorum_pipeline.spark.workers import start_workers

_LOCAL = {
    # Only this machine needs the ports of a local session.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
}
_ALWAYS = {
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.python.daemon.module": "quorum_pipeline.spark.worker_daemon",
}
_TOLD_ANYWAY = (
    "org.apache.spark.SparkContext",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.datasources.FileFormatWriter",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
    "org.apache.spark.util.Utils",
)
"""What these log, with a hundred lines of Java, is raised as well: commands say it in one line."""
# A JVM started from Python assumes a shell and would show progress bars.
_AT_BIRTH = {"spark.ui.showConsoleProgress": "false"}
_SOURCES = (
    MetadataArchive,
    MetadataChanges,
    MetadataLog,
    MetadataLogRanges,
    MetadataSnapshot,
    MetadataState,
)
SPARK_HOME = Path(pyspark.__file__).parent
"""Of the Spark that PySpark brings."""
_LITTLE_TO_COMPILE = "-XX:TieredStopAtLevel=1"
"""Most of what a JVM does in its first half minute is to compile. `spark.driver.extraJavaOptions` come behind it and win."""
_NOTHING_TO_COMPILE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For the same reason Spark makes no classes of queries."""


def open_session(
    name: str,
    master: str | None = None,
    more: Mapping[str, str] | None = None,
    *,
    rows_in_jvm: bool = True,
    workers_at_once: bool = False,
    keep_classes: Path | None = None,
) -> SparkSession:
    """With the data sources registered; `more` settings go first. Raises PipelineError where there is no Java.

    Without `rows_in_jvm` the driver's JVM sees no rows: it says who does what, and no code in it gets hot. `workers_at_once`: Python
    workers start while the session is made. `keep_classes` is a file that the JVM writes when it ends (`kept_classes.py`).
    """
    if shutil.which("java") is None and not _java_home_works():
        raise PipelineError("Spark needs Java 17: put `java` on the path, or set JAVA_HOME")
    conf = _given(more or {}, _java_options(rows_in_jvm, keep_classes))
    chosen = master or conf.get("spark.master") or "local[*]"
    settings = _ALWAYS | (_LOCAL if chosen.startswith("local") else {})
    settings |= {} if rows_in_jvm else _NOTHING_TO_COMPILE
    for key, value in settings.items():
        conf.setIfMissing(key, value)
    if chosen.startswith("local"):
        _name_python()
    conf.setMaster(chosen).setAppName(name)
    if conf.get("spark.log.level") == _ALWAYS["spark.log.level"]:
        _log_no_stacks()
    try:
        context = SparkContext.getOrCreate(conf)
    except SparkError as error:
        why = reason_of(error)
        raise PipelineError(f"Spark can't start with the master {chosen}: {why}") from None
    if workers_at_once:
        start_workers(context)
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    _know_no_other_sources(session.sparkContext)
    for source in _SOURCES:
        session.dataSource.register(source)
    return session


def end_session(session: SparkSession) -> None:
    """For a process that ends then. Raises what Spark raises.

    `SparkSession.stop` would wait, up to a second, for a thread of this process that looks once a second whether it is to end.
    """
    session._jsparkSession.stop()  # noqa: SLF001 - there is no public way


def _given(more: Mapping[str, str], java_options: str) -> SparkConf:
    """`more`, and what Spark was told from outside. Only its JVM knows that, so it is started first, with what it needs at birth."""
    first = SparkConf(loadDefaults=False)
    for key, value in {**_AT_BIRTH, **more}.items():
        first.set(key, value)
    # The last entry is for the processes that Java starts.
    at_birth = {
        "SPARK_SUBMIT_OPTS": java_options,
        "SPARK_LAUNCHER_OPTS": _LITTLE_TO_COMPILE,
        "QUORUM_PIPELINE_PYTHON": sys.executable,
    }
    with _environment(at_birth):
        SparkContext._ensure_initialized(conf=first)  # noqa: SLF001 - there is no public way
    conf = SparkConf()
    for key, value in more.items():
        conf.set(key, value)
    return conf


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """What is not set from outside, for a moment: it is not for other processes that this one starts."""
    missing = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


def _java_options(rows_in_jvm: bool, keep_classes: Path | None) -> str:
    compiling = "" if rows_in_jvm else _LITTLE_TO_COMPILE
    if keep_classes is not None:
        return f"{compiling} {options_to_make(keep_classes)}"
    return f"{compiling} {options_to_use(classes_file(SPARK_HOME / 'jars'))}"


def _name_python() -> None:
    """Workers are processes beside this one; they have to find what this one imports."""
    script = Path(__file__).with_name("worker_python.sh")
    if os.access(script, os.X_OK) and "SPARK_HOME" not in os.environ:
        os.environ.setdefault("PYSPARK_PYTHON", str(script))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _know_no_other_sources(context: SparkContext) -> None:
    """Spark would start two Python processes to look for installed packages that bring data sources."""
    jvm: Any = context._jvm  # noqa: SLF001 - as above
    manager = getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager$")
    none = getattr(jvm.scala.collection.immutable, "Map$")
    found = jvm.scala.Option.apply(getattr(none, "MODULE$").empty())
    getattr(getattr(manager, "MODULE$"), "dataSourceBuilders_$eq")(found)


def _log_no_stacks() -> None:
    """Of this process; executors elsewhere have logs of their own."""
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - as above
    log4j = jvm.org.apache.logging.log4j
    for name in _TOLD_ANYWAY:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)


def _java_home_works() -> bool:
    return (Path(os.environ.get("JAVA_HOME", "")) / "bin" / "java").is_file()
