"""Records of the log as rows of a table: columns, JSON, keys (pure)."""
