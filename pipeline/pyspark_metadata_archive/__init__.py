"""Where Spark finds the data source `metadata_archive` by itself: it imports packages of this name, and takes their DefaultSource (SPARK-45917)."""

from quorum_pipeline.spark.archive_source import MetadataArchive as DefaultSource

__all__ = ["DefaultSource"]
