"""What must survive a crash: the log, the quorum state and the identity of a data directory."""
