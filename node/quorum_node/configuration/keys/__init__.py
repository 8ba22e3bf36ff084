"""The table of all keys, a module for each part of the node: see `table.py`."""
