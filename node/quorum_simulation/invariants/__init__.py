"""Invariants of a simulation, one small class each."""
