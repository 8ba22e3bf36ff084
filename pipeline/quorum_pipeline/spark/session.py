"""A Spark session: on this machine by default, otherwise on the named cluster.

Owns the settings that all jobs share. Settings of `spark-submit` or `spark-defaults.conf` (in `SPARK_CONF_DIR`) take
precedence, the master included, so the same command runs on a cluster unchanged.
"""

import logging
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.local_files import is_local
from quorum_pipeline.redaction import USER
from quorum_pipeline.scratch import java_option
from quorum_pipeline.spark.class_data_sharing import classes_file, options_to_make, options_to_use
from quorum_pipeline.spark.encryption import encryption_of
from quorum_pipeline.spark.reason import SparkError, java_has_ended, reason_of
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
    # Off by default in Parquet: a merged archive would contain flipped bits, with checksums that are right.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    "spark.redaction.string.regex": f"(?<=://){USER}",
    "spark.python.daemon.module": "quorum_pipeline.spark.worker_daemon",
}
_ALWAYS_REPORTED = (
    "org.apache.spark.SparkContext",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.datasources.FileFormatWriter",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
    "org.apache.spark.util.Utils",
)
"""Loggers that are silenced: the errors that they log with long Java stacks are also raised, and commands report them in one line."""
# A JVM started from Python assumes a shell and would show progress bars.
_AT_JVM_START = {"spark.ui.showConsoleProgress": "false"}
SPARK_HOME = Path(pyspark.__file__).parent
"""Home of the Spark in PySpark's package."""
_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_DELTA = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Tables with few commits: 50 tasks to read them take longer than the rest.
    "spark.databricks.delta.snapshotPartitions": "2",
}
"""Settings without which Delta Lake refuses to work. Its classes come from `spark.jars.packages`, or are on the cluster."""
_LITTLE_TO_COMPILE = "-XX:TieredStopAtLevel=1"
"""A JVM spends most of its first half minute on compilation. `spark.driver.extraJavaOptions` come later and take precedence."""
_NOTHING_TO_COMPILE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For the same reason Spark generates no classes for queries."""


def open_session(
    name: str,
    master: str | None = None,
    more: Mapping[str, str] | None = None,
    *,
    rows_in_jvm: bool = True,
    workers_at_once: bool = False,
    class_archive: Path | None = None,
    delta: bool = False,
    home: Path | None = None,
) -> SparkSession:
    """Open a session; settings in `more` take precedence. Raises PipelineError if Java does not start, or Spark in it.

    Without `rows_in_jvm` the driver's JVM handles no rows: it only schedules, so no code in it needs optimized compilation.
    `workers_at_once`: Python workers start while the session is created. `class_archive` is a file that the JVM writes when it
    ends (`class_data_sharing.py`). `delta`: with the settings of Delta Lake. `home`: a copy of Spark's home from which Java starts.
    """
    if shutil.which("java") is None and not _java_home_works():
        raise PipelineError("Spark needs Java 17: put `java` on the path, or set JAVA_HOME")
    options = _java_options(home or SPARK_HOME, rows_in_jvm, class_archive)
    conf = _given(more or {}, options, master, home)
    chosen = master or conf.get("spark.master") or "local[*]"
    settings = _ALWAYS | (_LOCAL if chosen.startswith("local") else {})
    settings |= encryption_of(chosen, conf.get("spark.authenticate", "true"))
    settings |= {} if rows_in_jvm else _NOTHING_TO_COMPILE
    if delta:
        settings |= _DELTA
        others = [each for each in conf.get("spark.sql.extensions", "").split(",") if each]
        if _DELTA_EXTENSION not in others:
            conf.set("spark.sql.extensions", ",".join([*others, _DELTA_EXTENSION]))
    for key, value in settings.items():
        conf.setIfMissing(key, value)
    if chosen.startswith("local"):
        _name_python()
    conf.setMaster(chosen).setAppName(name)
    if conf.get("spark.log.level") == _ALWAYS["spark.log.level"]:
        _log_no_stacks()
    _log_no_client()
    try:
        context = SparkContext.getOrCreate(conf)
    except SparkError as error:
        why = reason_of(error)
        raise PipelineError(f"Spark can't start with the master {chosen}: {why}") from None
    _print_no_stacks(context)
    if workers_at_once:
        start_workers(context)
    return SparkSession.builder.config(conf=conf).getOrCreate()


def end_session(session: SparkSession) -> None:
    """Stop the session of a process that ends afterwards. Raises Spark's errors.

    `SparkSession.stop` would wait up to a second for a thread that polls once a second whether it should end.
    """
    with _unless_java_has_ended():
        session._jsparkSession.stop()  # noqa: SLF001 - there is no public way


def stop_session(session: SparkSession) -> None:
    """Stop a session; the process may open another one. Raises Spark's errors."""
    with _unless_java_has_ended():
        session.stop()


@contextmanager
def _unless_java_has_ended() -> Iterator[None]:
    """Ignore that nothing can be stopped any more: the error that a command reports is the one before."""
    try:
        yield
    except (*SparkError, OSError):
        if not java_has_ended():
            raise


def _given(
    more: Mapping[str, str], java_options: str, master: str | None, home: Path | None
) -> SparkConf:
    """Return `more` and Spark's external settings. Only the JVM has those, so it is started first, with its start options."""
    wanted = master or more.get("spark.master")
    here = is_local("/") if wanted is None else wanted.startswith("local")
    first = SparkConf(loadDefaults=False)
    for key, value in {**_AT_JVM_START, **more}.items():
        first.set(key, value)
    # The last two are for the processes that Java starts: with this Python the driver searches for data sources, and tasks read
    # them. Executors of other machines have no more than an interpreter at the same path.
    at_jvm_start = {
        "SPARK_SUBMIT_OPTS": java_options,
        "SPARK_LAUNCHER_OPTS": _LITTLE_TO_COMPILE,
        "PYSPARK_PYTHON": _python() if here else sys.executable,
        "QUORUM_PIPELINE_PYTHON": sys.executable,
    } | ({} if home is None else {"SPARK_HOME": str(home)})
    with _environment(at_jvm_start):
        try:
            SparkContext._ensure_initialized(conf=first)  # noqa: SLF001 - there is no public way
        except PySparkRuntimeError:
            raise PipelineError(
                "Spark's Java process did not start; its messages are above. It needs Java 17, and packages and jars that"
                " spark-defaults.conf names"
            ) from None
    conf = SparkConf()
    for key, value in more.items():
        conf.set(key, value)
    return conf


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set variables that are not yet set, for a short time: other processes that this one starts must not inherit them."""
    missing = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


def _java_options(home: Path, rows_in_jvm: bool, class_archive: Path | None) -> str:
    compiling = f"{'' if rows_in_jvm else _LITTLE_TO_COMPILE} {java_option()}"
    if class_archive is not None:
        return f"{compiling} {options_to_make(class_archive)}"
    return f"{compiling} {options_to_use(classes_file(home / 'jars'))}"


def _name_python() -> None:
    """Set the interpreter of Python workers: they need the same modules as this process."""
    os.environ.setdefault("PYSPARK_PYTHON", _python())


def _python() -> str:
    script = Path(__file__).with_name("worker_python.sh")
    is_usable = os.access(script, os.X_OK) and "SPARK_HOME" not in os.environ
    return str(script) if is_usable else sys.executable


def _log_no_stacks() -> None:
    """Silence the loggers of this process's JVM; executors on other machines have separate logs."""
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - as above
    log4j = jvm.org.apache.logging.log4j
    for name in _ALWAYS_REPORTED:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)


def _log_no_client() -> None:
    """Silence the client of Java: it logs the stack of an error that it also raises, when Java ends, or of Ctrl-C."""
    logging.getLogger().addFilter(_is_not_of_the_client)
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)


def _print_no_stacks(context: SparkContext) -> None:
    """Silence the thread that receives accumulators from Java: it prints the stack of an error that is also raised, when Java ends."""
    server: Any = context._accumulatorServer  # noqa: SLF001 - as above
    if server is not None:
        server.handle_error = lambda request, address: None


def _is_not_of_the_client(record: logging.LogRecord) -> bool:
    """Return whether a message to the root logger is not of py4j, which uses no other logger for this one."""
    return Path(record.pathname).parent.name != "py4j"


def _java_home_works() -> bool:
    return (Path(os.environ.get("JAVA_HOME", "")) / "bin" / "java").is_file()
