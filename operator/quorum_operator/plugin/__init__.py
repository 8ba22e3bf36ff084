"""`kubectl quorum`: inspect a quorum in a terminal. Needs only kubectl and Python."""
