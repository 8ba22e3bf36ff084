"""Delta Lake for tests: its classes from Maven Central, and a Spark that has them.

Owns the classes and the settings. Must not know what the tables hold.
"""

from pathlib import Path

from support.stock_kafka import resolved

_POM = Path(__file__).resolve().parents[1] / "pipeline" / "delta" / "pom.xml"


def spark_with_delta(directory: Path) -> dict[str, str]:
    """Environment variables for a process whose Spark has Delta. `directory`: for the file of settings, created here.

    Raises KafkaUnavailable without Java, Maven or Maven Central.
    """
    directory.mkdir()
    jars = ",".join(str(jar) for jar in sorted(resolved(_POM, "delta").glob("*.jar")))
    (directory / "spark-defaults.conf").write_text(f"spark.jars {jars}\n")
    return {"SPARK_CONF_DIR": str(directory)}
