"""Faults: kinds, times and durations. One file per family; `families.py` lists them."""
