"""The simulation of brokers: the real core of the data path on simulated disks, networks and a stand-in for the controller."""
