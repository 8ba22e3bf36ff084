"""The key to value image that committed metadata records build, equal on every replica. Pure."""
