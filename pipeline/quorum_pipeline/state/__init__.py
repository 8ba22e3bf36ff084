"""The state of a cluster at an offset, replayed from its history, as tables and as a node's snapshot. PURE."""
