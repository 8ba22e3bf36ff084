"""Registers the data source `metadata_log` without a call: Spark imports packages of this name and uses their DefaultSource (SPARK-45917)."""

from quorum_pipeline.spark.log_source import MetadataLog as DefaultSource

__all__ = ["DefaultSource"]
