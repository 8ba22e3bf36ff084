"""`quorumctl`, the command line tool: describe, change and watch a quorum through its admin API."""
