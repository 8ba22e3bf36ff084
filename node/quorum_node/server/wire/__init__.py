"""Kafka's messages and the core's, both ways, one module per RPC."""
