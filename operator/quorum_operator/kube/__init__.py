"""Kubernetes I/O: live reads, conditional writes, classified errors."""
