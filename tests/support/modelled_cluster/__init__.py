"""Random changes on a modelled cluster: the acts of `support.random_changes` against the operator's own reconciles, in virtual time.

Owns models of what surrounds the operator: the API server, Kubernetes' controllers, hosts, disks, and nodes that form a quorum.
"""
