"""Stock Apache Kafka from Maven Central: its jars, its tools, and small Java programs that use its classes.

Owns resolving and compiling (once, into a cache outside of the checkout, by a hash of the inputs) and running. Must not know what a test
checks. Used by tests/interop and by bench/.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from quorum_node.fresh_uuid import fresh_uuid
from quorum_pipeline.spark.class_data_sharing import classes_file, options_to_use

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent / "interop" / "kafka"
POM = SOURCES / "pom.xml"
LOGGING = SOURCES / "log4j2.properties"
RESOLVE_TIMEOUT_SECONDS = 900.0
_COMPILE_TIMEOUT_SECONDS = 120.0

METADATA_QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
STORAGE = "kafka.tools.StorageTool"
CONFIGS = "kafka.admin.ConfigCommand"
SERVER = "kafka.Kafka"


class KafkaUnavailable(Exception):
    """Java or the jars are not available on this machine."""


def cache_directory() -> Path:
    """Where downloads are kept between checkouts."""
    named = os.environ.get("METADATAQUORUM_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "metadataquorum"


@cache
def jars() -> Path:
    """The folder of the jars, resolved on first use.

    Raises KafkaUnavailable without Java or Maven, or when Maven Central can't be reached.
    """
    return resolved(POM, "kafka")


def resolved(pom: Path, name: str) -> Path:
    """The folder of the jars that a pom names, fetched on first use below `name` in the cache. Raises as `jars` does."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise KafkaUnavailable(f"no {program} on the path")
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    folder = cache_directory() / name / digest
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{digest}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _resolve(pom, folder)
    return folder


def _resolve(pom: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        wanted = Path(scratch) / "jars"
        command = ["mvn", "-B", "-q", "-f", str(pom), "dependency:copy-dependencies"]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={wanted}"],
            capture_output=True,
            text=True,
            timeout=RESOLVE_TIMEOUT_SECONDS,
            env={**os.environ, "MAVEN_OPTS": "-Xmx512m"},
        )
        if done.returncode != 0:
            raise KafkaUnavailable(f"mvn: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        wanted.rename(folder)


def java(
    *arguments: str, heap_mb: int = 128, short_lived: bool = True, classes: Path | None = None
) -> list[str]:
    """A command line with the jars on the class path, followed by `classes`.

    A short-lived program skips the optimizing compiler, and uses the archived classes (`kafka_class_archive.py`).
    """
    speed = ["-XX:+UseG1GC", "-Xshare:auto"]
    if short_lived:
        kept = options_to_use(kept_classes_file()).split() or ["-Xshare:auto"]
        speed = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *kept]
    path = f"{jars()}/*" + (f":{classes}" if classes else "")
    logging = f"-Dlog4j2.configurationFile={LOGGING}"
    return ["java", f"-Xmx{heap_mb}m", *speed, logging, "-cp", path, *arguments]


@cache
def kept_classes_file() -> Path | None:
    """The archive of these jars' classes for the present Java. It may not exist."""
    file = classes_file(jars())
    return file and cache_directory() / "kafka" / file.name


def compiled(source: Path) -> Path:
    """The folder of the classes of a program, made once per version of its source. Any Java from 17 on runs them."""
    options = ["-nowarn", "--release", "17"]
    made_of = source.read_bytes() + " ".join([str(jars()), *options]).encode()
    digest = hashlib.sha256(made_of).hexdigest()[:16]
    folder = cache_directory() / "kafka" / f"clients-{digest}"
    if not folder.exists():
        scratch = folder.with_name(f"{folder.name}-{fresh_uuid().hex}")
        classes = ["-cp", f"{jars()}/*", "-d", str(scratch)]
        done = _run(["javac", *options, *classes, str(source)], _COMPILE_TIMEOUT_SECONDS)
        assert done.returncode == 0, done.stderr
        with contextlib.suppress(OSError):  # another process was faster
            scratch.rename(folder)
    return folder


def run_tool(
    main_class: str, *arguments: str, timeout_seconds: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Runs one of Kafka's tools to its end; the caller checks output and exit code."""
    return _run(java(main_class, *arguments), timeout_seconds)


def tool(main_class: str, *arguments: str, given: str | None = None) -> str:
    """Output of a tool, which must succeed."""
    done = _run(java(main_class, *arguments, heap_mb=256), 90, given)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_source(
    name: str, *arguments: str, timeout_seconds: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Runs a Java program of tests/interop/kafka against Kafka's classes."""
    source = SOURCES / name
    classes = compiled(source)
    return _run(java(source.stem, *arguments, heap_mb=256, classes=classes), timeout_seconds)


def _run(
    command: Sequence[str], timeout_seconds: float, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=timeout_seconds
    )
