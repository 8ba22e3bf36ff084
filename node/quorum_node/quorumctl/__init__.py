"""The command line for people: describe, change and watch a quorum through its admin API."""
