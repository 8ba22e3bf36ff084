"""What is left of a run of records when those that later ones overtake are gone: the idea of log compaction (pure)."""
