"""The partitions of a broker on disk: files exactly as a stock Kafka broker's, so that either takes over from the other."""
