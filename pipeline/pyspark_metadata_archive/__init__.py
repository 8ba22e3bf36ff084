"""Registers the data source `metadata_archive` without a call: Spark imports packages of this name and uses their DefaultSource (SPARK-45917)."""

from quorum_pipeline.spark.archive_source import MetadataArchive as DefaultSource

__all__ = ["DefaultSource"]
