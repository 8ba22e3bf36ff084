"""Histories of concurrent clients on real nodes under faults, and their check."""
