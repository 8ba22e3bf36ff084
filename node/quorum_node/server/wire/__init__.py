"""Translates between Kafka's messages and the core's, one module per RPC."""
