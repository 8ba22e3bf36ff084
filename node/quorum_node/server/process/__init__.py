"""Builds the node from its roles and parts, and starts and stops them in order."""
