"""Reads a running quorum over Kafka's protocol, as a consumer that is not part of it. No Spark."""
