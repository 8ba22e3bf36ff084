"""What an intruder may name in any of its messages: a replica, an address, an epoch, a cluster id."""

from uuid import UUID

from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_simulation.faults.family import FaultContext

NOBODY = Endpoint("CONTROLLER", "nobody", 9093)
LARGEST_EPOCH = (1 << 31) - 1
OTHER_CLUSTER_ID = "another-cluster-id0000"
BURST = 12
"""Most messages of one fault."""


def any_key(context: FaultContext) -> ReplicaKey:
    """The key of an existing or of an unknown replica."""
    random, hosts = context.random, context.cluster.hosts.values()
    stranger = ReplicaKey(random.randrange(1, 20), UUID(int=random.randrange(9)))
    return random.choice([*(host.key for host in hosts), stranger])


def any_endpoint(context: FaultContext) -> Endpoint:
    """The address of an existing replica."""
    return Endpoint("CONTROLLER", context.random.choice(list(context.cluster.hosts)), 9093)
