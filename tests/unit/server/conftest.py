"""Fixtures of more than one file."""

from support.single_replica import runs

__all__ = ["runs"]
