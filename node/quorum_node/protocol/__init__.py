"""What peers say: Kafka's requests and responses, as bytes and back. Pure."""
