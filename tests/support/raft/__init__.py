"""Cores wired together in memory, for tests of rules and for scenarios."""
