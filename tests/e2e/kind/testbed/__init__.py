"""The cluster that the end-to-end tests and the demo run on.

Owns: a docker daemon where none answers, the programs (kind, kubectl, helm), the node image, the
project's images, the kind cluster, its disks and the faults done to all of that. It knows nothing of
Raft or of the operator: it hands out a kubeconfig, disks that can fail, and ways to hurt nodes.

Only the standard library is used, so that it runs before anything is installed.
"""
