"""A quorum on a real cluster, with a workload and fault injection.

Shared by the demo and the end-to-end tests. The test bed in tests/e2e/kind provides the cluster, its disks and its
images.
"""
