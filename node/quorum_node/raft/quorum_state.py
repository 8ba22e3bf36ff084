"""The durable state of elections besides the log.

Owns the fields of the quorum-state file. Must not know its format or how it is written.
Source: KIP-595, "Quorum State"; KIP-853 (voted key); fields of the KIP draft are private keys of
the file.
"""

from dataclasses import dataclass

from quorum_node.raft.messages import NO_LEADER
from quorum_node.records.identity import ReplicaKey, Voter


@dataclass(frozen=True, slots=True)
class QuorumState:
    """`applied_offset` (exclusive) and all voter fields refer to committed records only.

    `voters_offset`/`voters_epoch` are -1 while no committed voters record is known.
    """

    leader_epoch: int = 0
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None
    cluster_id: str | None = None
    applied_offset: int = 0
    current_voters: tuple[Voter, ...] = ()
    target_voters: tuple[ReplicaKey, ...] | None = None
    voters_offset: int = -1
    voters_epoch: int = -1
    formed: bool = False
