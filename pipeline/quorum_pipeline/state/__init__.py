"""The state of a cluster at an offset: replayed from its history, as tables, and as the node's own snapshot (pure)."""
