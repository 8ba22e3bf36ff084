"""The controller, its append queue and its applier on top of simulated replicas."""
