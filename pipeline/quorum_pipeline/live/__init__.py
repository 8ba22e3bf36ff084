"""A running quorum, read over Kafka's protocol as an observer that nobody has to count; no Spark in it."""
