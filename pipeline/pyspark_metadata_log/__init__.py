"""Where Spark finds the data source `metadata_log` by itself: it imports packages of this name, and takes their DefaultSource (SPARK-45917)."""

from quorum_pipeline.spark.log_source import MetadataLog as DefaultSource

__all__ = ["DefaultSource"]
