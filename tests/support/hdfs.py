"""HDFS with a name node and a data node, as a process of its own on the loopback interface.

Owns the process, and its classes: from Maven Central, beside those of Hadoop's client in PySpark. What it stores is gone when it ends.
"""

import subprocess
from pathlib import Path
from typing import Self

import pyspark

from support.stock_kafka import resolved

SOURCES = Path(__file__).resolve().parents[1] / "pipeline" / "hdfs"
_STOP_S = 20.0


class Hdfs:
    """Started on entering, ended on leaving. `uri`: of its root, without a slash at the end."""

    def __init__(self, directory: Path) -> None:
        self.uri = ""
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Raises KafkaUnavailable without Java, Maven or Maven Central; RuntimeError if it does not start."""
        self._directory.mkdir(parents=True)
        classes = (resolved(SOURCES / "pom.xml", "hdfs"), Path(pyspark.__file__).parent / "jars")
        path = ":".join(f"{each}/*" for each in classes)
        command = ["java", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-cp", path]
        with (self._directory / "log").open("w") as log:
            self._process = subprocess.Popen(
                [*command, str(SOURCES / "Hdfs.java"), str(self._directory / "data")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ready "):
                self.uri = line.removeprefix("ready ").strip()
                return self
        self.__exit__(None, None, None)
        raise RuntimeError(f"HDFS did not start: {(self._directory / 'log').read_text()[-2000:]}")

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate(timeout=_STOP_S)
