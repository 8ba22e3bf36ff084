"""Deterministic simulation of a quorum: the real driver and core on simulated devices.

`run.run_seed(seed)` plays one history: 1 to 7 replicas with clients, a membership plan and faults,
all drawn from the seed, on a simulated clock, disk and network; invariants watch every step. The same
seed gives the same history. `python -m quorum_simulation --seed N` replays one.
"""
