"""Compares the histories of replicas, from the data read from each. PURE."""
