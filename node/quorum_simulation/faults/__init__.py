"""Faults: what goes wrong, when, and for how long. A file per family; `families.py` lists them."""
