"""Cores connected in memory, for tests of rules and for scenarios."""
