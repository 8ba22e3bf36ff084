"""Reads logs and snapshots of our nodes and of stock Kafka from a disk, without Spark. Never changes them."""
