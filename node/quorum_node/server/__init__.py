"""The process around the core: its driver loop, listeners, peers, admin API and metrics."""
