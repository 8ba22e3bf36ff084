"""Histories of concurrent clients against real nodes under faults, and the check of them."""
