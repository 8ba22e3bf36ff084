"""The Kafka port: connections, authentication, limits and scheduling."""
