"""Archives in a file system that Hadoop knows and executors do not mount, without a server.

Hadoop's viewfs gives directories other names: `viewfs://NAME/place` is a directory of this machine that no program but Hadoop finds
under that URI. The pipeline can't tell it from HDFS or an object store. Must not know what is archived.
"""

from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession

PLACE = "place"


def table_entry(name: str, directory: Path) -> tuple[str, str]:
    """Key and value of the setting by which `viewfs://NAME/place` is a directory."""
    return f"fs.viewfs.mounttable.{name}.link./{PLACE}", directory.as_uri()


def hadoop_uri(spark: SparkSession, path: Path) -> str:
    """A URI of a directory, which need not exist yet, for Spark alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    name = f"table-{uuid4().hex}"
    # Hadoop reads a table once, so each has a name of its own.
    spark.sparkContext._jsc.hadoopConfiguration().set(*table_entry(name, path.parent))
    return f"viewfs://{name}/{PLACE}/{path.name}"


def spark_settings(directory: Path, name: str, wanted: Path) -> dict[str, str]:
    """The environment of a process for whose Spark `viewfs://NAME/place` is `wanted`. `directory`: for a file of
    settings.
    """
    directory.mkdir()
    key, value = table_entry(name, wanted)
    (directory / "spark-defaults.conf").write_text(f"spark.hadoop.{key} {value}\n")
    return {"SPARK_CONF_DIR": str(directory)}
