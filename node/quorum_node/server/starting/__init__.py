"""From the configuration and the directory to replicas that can start."""
