"""Whether replicas hold the same history: comparison of what was read from each (pure)."""
