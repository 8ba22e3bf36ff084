"""A whole quorum in one thread: simulated clock, disks and network under the real core and driver."""
