"""The node in whose name a request acts, and whether its caller may. PURE.

Owns the rule that requests in the name of node id N need the certificate of N. Otherwise a broker
could vote, and the key of one member would be valid for all. The id comes from the request, the
identity from the certificate of the connection.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from quorum_node.protocol.alter_partition import AlterPartitionRequest
from quorum_node.protocol.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from quorum_node.protocol.broker_registration import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
)
from quorum_node.protocol.controller_heartbeat import ControllerHeartbeatRequest
from quorum_node.protocol.controller_registration import ControllerRegistrationRequest
from quorum_node.protocol.discover_brokers import DiscoverBrokersRequest
from quorum_node.protocol.elections import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    VoteRequest,
)
from quorum_node.protocol.fetch import FetchRequest
from quorum_node.protocol.fetch_snapshot import FetchSnapshotRequest
from quorum_node.protocol.producer_ids import AllocateProducerIdsRequest
from quorum_node.protocol.voters import (
    AddRaftVoterRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
from quorum_node.schema.schema import Message
from quorum_node.security.caller import Caller
from quorum_node.security.certificate_identity import CertificateIdentity, Role

OBSERVER_ID = 0x7FFFFFFF
"""The id that the pipeline uses as an observer of the metadata log. A node may have it as well."""
UNCLAIMED_REPLICA = frozenset({-1, OBSERVER_ID})
"""Ids of readers of the log that are not nodes: consumers, and the pipeline as an observer."""
_MEMBER = frozenset({Role.MEMBER})
_BROKER = frozenset({Role.BROKER})
_REPLICA = _MEMBER | _BROKER


@dataclass(frozen=True, slots=True)
class Claim:
    """The request claims to come from a node with one of these roles and ids.

    With more than one id the claim is always refused.
    """

    roles: frozenset[Role]
    node_ids: frozenset[int]

    @property
    def text(self) -> str:
        """The claim in messages."""
        kinds = " or ".join(sorted(role.value for role in self.roles))
        return f"{kinds} {', '.join(map(str, sorted(self.node_ids)))}"


def claim_of(body: Message, taken: frozenset[int] = frozenset()) -> Claim | None:
    """The claim of a request; None if it acts for no node. `taken`: ids of nodes, whatever readers use."""
    found = _CLAIMS.get(type(body))
    if found is None:
        return None
    roles, ids_of, nobody = found
    node_ids = frozenset(ids_of(body))
    return None if node_ids <= nobody - taken else Claim(roles, node_ids)


def own_voter_change(body: Message, identity: CertificateIdentity | None) -> bool:
    """Whether a member requests to be added, or that an earlier replica of its own id is removed."""
    return (
        isinstance(body, AddRaftVoterRequest | RemoveRaftVoterRequest)
        and identity is not None
        and identity.role is Role.MEMBER
        and body.voter_id == identity.node_id
    )


def why_not_speaker(caller: Caller, claim: Claim, voter_ids: frozenset[int]) -> str | None:
    """Why the caller may not act for that node, for the log; None if it may. A voter is a member."""
    identity = caller.identity
    if claim.roles is _REPLICA and claim.node_ids & voter_ids:
        claim = Claim(_MEMBER, claim.node_ids)
    if identity is None:
        return (
            f"{caller.principal} acts for {claim.text} without a certificate of a node: it needs the name"
            " urn:metadataquorum:NAMESPACE:QUORUM:ROLE:ID, or quorum.identity.binding=false"
        )
    if identity.role in claim.roles and claim.node_ids == {identity.node_id}:
        return None
    return f"{caller.principal} acts for {claim.text} with the certificate {identity.uri()}"


def why_not_dialled(
    identity: CertificateIdentity | None, node_id: int, role: Role = Role.MEMBER
) -> str | None:
    """Why a connection to voter, or broker, `node_id` reached another server; None if it reached the right one."""
    who = f"voter {node_id}" if role is Role.MEMBER else f"{role.value} {node_id}"
    if identity is None:
        return f"the server at the address of {who} has no certificate of a {role.value}"
    if identity.role is role and identity.node_id == node_id:
        return None
    return f"the server at the address of {who} has the certificate {identity.uri()}"


def _in_partitions(field: str) -> Callable[[Any], tuple[int, ...]]:
    return lambda body: tuple(
        getattr(partition, field) for topic in body.topics for partition in topic.partitions
    )


def _in_body(field: str) -> Callable[[Any], tuple[int, ...]]:
    value_of = attrgetter(field)
    return lambda body: (value_of(body),)


def _fetcher_id(body: FetchRequest) -> tuple[int, ...]:
    """The id of the fetcher. Every negative id belongs to a consumer, as for a stock broker (-2: a debugging consumer)."""
    return (max(body.fetcher_id, -1),)


_NOBODY: frozenset[int] = frozenset()
_CLIENT = frozenset({-1})

_CLAIMS: dict[
    type[Message], tuple[frozenset[Role], Callable[[Any], tuple[int, ...]], frozenset[int]]
] = {
    VoteRequest: (_MEMBER, _in_partitions("replica_id"), _NOBODY),
    BeginQuorumEpochRequest: (_MEMBER, _in_partitions("leader_id"), _NOBODY),
    EndQuorumEpochRequest: (_MEMBER, _in_partitions("leader_id"), _NOBODY),
    UpdateRaftVoterRequest: (_MEMBER, _in_body("voter_id"), _NOBODY),
    DiscoverBrokersRequest: (_MEMBER, _in_body("replica_id"), _CLIENT),
    ControllerRegistrationRequest: (_MEMBER, _in_body("controller_id"), _NOBODY),
    ControllerHeartbeatRequest: (_MEMBER, _in_body("controller_id"), _NOBODY),
    FetchRequest: (_REPLICA, _fetcher_id, UNCLAIMED_REPLICA),
    FetchSnapshotRequest: (_REPLICA, _in_body("replica_id"), UNCLAIMED_REPLICA),
    BrokerRegistrationRequest: (_BROKER, _in_body("broker_id"), _NOBODY),
    BrokerHeartbeatRequest: (_BROKER, _in_body("broker_id"), _NOBODY),
    AlterPartitionRequest: (_BROKER, _in_body("broker_id"), _NOBODY),
    AllocateProducerIdsRequest: (_BROKER, _in_body("broker_id"), _NOBODY),
    AssignReplicasToDirsRequest: (_BROKER, _in_body("broker_id"), _NOBODY),
}
"""Roles, the field of the id, and ids that mean "no node"."""
IDS_OF = {kind: ids_of for kind, (_, ids_of, _) in _CLAIMS.items()}
"""The ids in a request. Requests of one type with the same ids make the same claim."""
CLAIMING = frozenset(_CLAIMS)
"""Requests that act for a node."""
