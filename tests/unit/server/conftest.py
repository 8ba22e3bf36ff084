"""Fixtures of more than one file."""

from support.lone_replica import runs

__all__ = ["runs"]
