"""Simulation of brokers: the real core of the data path on simulated disks and networks, with a simplified controller."""
