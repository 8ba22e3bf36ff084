"""Compiler from declarations of messages and records to codecs, and the primitive types of the wire (pure)."""
