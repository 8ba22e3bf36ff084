"""The cluster's metadata as an immutable value that committed records build, equal on every replica (pure)."""
