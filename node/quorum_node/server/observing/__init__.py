"""What people and machines can see of the node: metrics, times, log lines."""
