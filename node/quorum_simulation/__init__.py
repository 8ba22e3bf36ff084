"""Deterministic simulation of a quorum: the real driver and core on simulated devices.

`run.run_seed(seed)` runs one history: 1 to 7 replicas with clients, a membership plan and faults, all derived from
the seed, on a simulated clock, disk and network. Invariants are checked at every step. The same seed gives the same
history. `python -m quorum_simulation --seed N` repeats one.
"""
