"""The Kafka port: connections, who is let in, whose turn it is."""
