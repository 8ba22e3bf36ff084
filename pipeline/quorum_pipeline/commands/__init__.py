"""The commands: argument parsing and output. The other packages do the work."""
