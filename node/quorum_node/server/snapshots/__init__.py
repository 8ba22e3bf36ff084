"""Snapshots of one replica: when one is due, how it is written, and how the driver reads and installs them."""
