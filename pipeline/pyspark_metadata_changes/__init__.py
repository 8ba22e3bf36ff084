"""Where Spark finds the data source `metadata_changes` by itself: it imports packages of this name, and takes their DefaultSource (SPARK-45917)."""

from quorum_pipeline.spark.state_source import MetadataChanges as DefaultSource

__all__ = ["DefaultSource"]
