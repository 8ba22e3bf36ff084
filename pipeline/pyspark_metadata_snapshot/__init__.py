"""Where Spark finds the data source `metadata_snapshot` by itself: it imports packages of this name, and takes their DefaultSource (SPARK-45917)."""

from quorum_pipeline.spark.snapshot_source import MetadataSnapshot as DefaultSource

__all__ = ["DefaultSource"]
