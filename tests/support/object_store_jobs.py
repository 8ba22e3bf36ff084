"""Settings with which a Spark of its own process reads and writes an object store through Hadoop's s3a.

Owns the classes, from Maven Central, and the file of settings. Must not know what is stored.
"""

from pathlib import Path

from support.object_store import ObjectStore
from support.stock_kafka import resolved

_POM = Path(__file__).resolve().parents[1] / "pipeline" / "s3a" / "pom.xml"
_PATIENCE = {
    # The store is on this machine: what it refuses once it refuses always.
    "fs.s3a.attempts.maximum": "2",
    "fs.s3a.retry.limit": "2",
}


def spark_environment(store: ObjectStore, directory: Path) -> dict[str, str]:
    """Environment variables for a process whose Spark knows `s3a://`. `directory`: for the file of settings, created here.

    Raises KafkaUnavailable without Java, Maven or Maven Central.
    """
    jars = ",".join(str(jar) for jar in sorted(resolved(_POM, "s3a").glob("*.jar")))
    settings = {f"spark.hadoop.{key}": v for key, v in (store.s3a_properties | _PATIENCE).items()}
    settings["spark.jars"] = jars
    directory.mkdir()
    lines = "".join(f"{key} {value}\n" for key, value in settings.items())
    (directory / "spark-defaults.conf").write_text(lines)
    return {"SPARK_CONF_DIR": str(directory)}
