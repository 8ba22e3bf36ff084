"""Snapshots of one replica: when one is due, how it is written, what the driver sees of them."""
