"""Registers the data source `metadata_state` without a call: Spark imports packages of this name and uses their DefaultSource (SPARK-45917)."""

from quorum_pipeline.spark.state_source import MetadataState as DefaultSource

__all__ = ["DefaultSource"]
