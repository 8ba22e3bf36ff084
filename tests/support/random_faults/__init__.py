"""Rounds on real broker processes: a cluster, a load, overlapping faults and topic operations, all drawn from a seed.

At the end everything heals, and each replica of each partition is read back. `python -m support.random_faults` plays them.
"""
