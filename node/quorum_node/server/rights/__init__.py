"""Authorization on this node: checked before a request of the Kafka port or the admin port is handled."""
