"""The node's configuration: one table of keys, and the checked values that a process is started with."""
