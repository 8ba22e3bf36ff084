"""What the Kafka port answers, and whom it asks: from a request to one or more replicas and back."""
