"""Reads Parquet files by their names, with the same result whatever the settings of a session are."""

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession

from quorum_pipeline.spark.literal_paths import literal

_NOTHING_LEFT_OUT = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
"""A session that reads other data may ignore such files."""


def read_parquet(session: SparkSession, ddl: str, paths: Iterable[str]) -> DataFrame:
    """Return the rows of files, or of directories, with these columns (DDL): those that a file lacks are null, others are
    dropped. Missing and damaged files are an error.
    """
    reader = session.read.schema(ddl).options(**_NOTHING_LEFT_OUT)
    return reader.parquet(*map(literal, paths))
