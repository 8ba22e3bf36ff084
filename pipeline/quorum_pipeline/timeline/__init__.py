"""What happened to a cluster and how long it took, read off its log (pure)."""
