"""The start: from the configuration and the directory to replicas that can run."""
