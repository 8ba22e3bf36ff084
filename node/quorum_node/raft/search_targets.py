"""The servers that can be asked for the leader.

Owns the list. Must not know when and how they are asked (`discovery.py`, `inquiry.py`).
"""

from quorum_node.raft.replica_state import ReplicaState
from quorum_node.records.identity import Endpoint, ReplicaKey


def targets(replica: ReplicaState) -> list[tuple[ReplicaKey | None, Endpoint]]:
    """The other voters, then further addresses that belong to none of them."""
    found: list[tuple[ReplicaKey | None, Endpoint]] = []
    for key in replica.other_voters():
        endpoint = replica.endpoint_of(key)
        if endpoint is not None:
            found.append((key, endpoint))
    own = replica.controller_endpoint
    for endpoint in (*replica.config.bootstrap, *replica.gossip.strangers):
        known = any((e.host, e.port) == (endpoint.host, endpoint.port) for _, e in found)
        mine = own is not None and (own.host, own.port) == (endpoint.host, endpoint.port)
        if not known and not mine:
            found.append((None, endpoint))
    return found
