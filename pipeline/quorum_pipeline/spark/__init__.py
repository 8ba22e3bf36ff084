"""Spark data sources, sessions and queries around the other packages."""
