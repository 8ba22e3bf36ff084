"""The requests of the Kafka port: passed to one or more replicas, and answered."""
