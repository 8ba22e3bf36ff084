"""A Spark session: on this machine by default, on whatever cluster is named otherwise.

Owns the settings that every job shares. What `spark-submit` or `spark-defaults.conf` (in `SPARK_CONF_DIR`) says stays as it is,
the master included, and so the same command runs on a cluster unchanged.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.spark.log_source import MetadataLog
from quorum_pipeline.spark.snapshot_source import MetadataSnapshot
from quorum_pipeline.spark.task_source import MetadataLogTasks

_LOCAL = {
    # Nobody else has business with the ports of a local session.
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
}
# Where the JVM is started from Python it takes itself for a shell, and would draw bars.
_AT_BIRTH = {"spark.ui.showConsoleProgress": "false"}
_LITTLE_TO_COMPILE = "-XX:TieredStopAtLevel=1"
"""Most of what a JVM does in its first half minute is to compile. `spark.driver.extraJavaOptions` come behind it and win."""


def open_session(
    name: str,
    master: str | None = None,
    more: Mapping[str, str] | None = None,
    *,
    rows_in_jvm: bool = True,
) -> SparkSession:
    """With the data sources registered; `more` settings go first. Raises PipelineError where there is no Java.

    Without `rows_in_jvm` the driver's JVM sees no rows: it says who does what, and no code in it gets hot.
    """
    if shutil.which("java") is None and not _java_home_works():
        raise PipelineError("Spark needs Java 17: put `java` on the path, or set JAVA_HOME")
    if not rows_in_jvm:
        os.environ.setdefault("SPARK_SUBMIT_OPTS", _LITTLE_TO_COMPILE)
    conf = _given(more or {})
    chosen = master or conf.get("spark.master") or "local[*]"
    settings = _ALWAYS | (_LOCAL if chosen.startswith("local") else {})
    for key, value in settings.items():
        conf.setIfMissing(key, value)
    if chosen.startswith("local"):
        # Workers are processes beside this one; they have to find what this one imports.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf.setMaster(chosen).setAppName(name)
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    session.dataSource.register(MetadataLog)
    session.dataSource.register(MetadataLogTasks)
    session.dataSource.register(MetadataSnapshot)
    return session


def _given(more: Mapping[str, str]) -> SparkConf:
    """`more`, and what Spark was told from outside. Only its JVM knows that, so it is started first, with what it needs at birth."""
    first = SparkConf(loadDefaults=False)
    for key, value in {**_AT_BIRTH, **more}.items():
        first.set(key, value)
    SparkContext._ensure_initialized(conf=first)  # noqa: SLF001 - there is no public way
    conf = SparkConf()
    for key, value in more.items():
        conf.set(key, value)
    return conf


def _java_home_works() -> bool:
    return (Path(os.environ.get("JAVA_HOME", "")) / "bin" / "java").is_file()
