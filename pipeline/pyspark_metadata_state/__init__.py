"""Where Spark finds the data source `metadata_state` by itself: it imports packages of this name, and takes their DefaultSource (SPARK-45917)."""

from quorum_pipeline.spark.state_source import MetadataState as DefaultSource

__all__ = ["DefaultSource"]
