"""Kafka RPC schemas and codecs (pure)."""
