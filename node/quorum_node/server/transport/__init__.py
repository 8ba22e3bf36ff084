"""Sockets and frames: shared by both ends of a connection between Kafka nodes."""
