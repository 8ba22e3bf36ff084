"""Logs and snapshots on a disk, of our nodes and of stock Kafka: read only, never changed, no Spark in it."""
