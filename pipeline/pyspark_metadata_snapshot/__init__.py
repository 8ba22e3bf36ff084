"""Registers the data source `metadata_snapshot` without a call: Spark imports packages of this name and uses their DefaultSource (SPARK-45917)."""

from quorum_pipeline.spark.snapshot_source import MetadataSnapshot as DefaultSource

__all__ = ["DefaultSource"]
