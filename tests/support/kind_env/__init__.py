"""A quorum on a real cluster, with a workload on it and hands that hurt it.

Shared by the demo and by the end-to-end tests. The cluster itself, its disks and its images come
from the test bed in tests/e2e/kind.
"""
