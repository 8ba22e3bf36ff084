"""Sockets and frames: what both ends of a connection between Kafka nodes need."""
