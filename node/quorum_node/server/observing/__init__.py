"""The node's observability: metrics, request times and log lines."""
