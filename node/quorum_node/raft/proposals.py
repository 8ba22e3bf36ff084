"""Client writes on the leader: one batch each, answered after the commit.

Owns what is refused and why. Must not know what the records mean.
Source: KIP-595, "Client Interactions" (K595-29); formation rule: no writes before all initial
voters have joined.
"""

from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Leader, PendingProposal
from quorum_node.raft.log_appends import append_values
from quorum_node.raft.outputs import ProposalFailed
from quorum_node.raft.replica_state import ReplicaState


def propose(replica: ReplicaState, proposal_id: int, records: tuple[bytes, ...]) -> None:
    """Append the batch, or refuse it without any change."""
    error = _refusal(replica)
    if error is not None:
        replica.out.append(ProposalFailed(proposal_id, error))
        return
    leader = replica.role
    assert isinstance(leader, Leader)
    base, end = append_values(replica, records)
    leader.proposals.append(PendingProposal(proposal_id, base, end))


def _refusal(replica: ReplicaState) -> RaftError | None:
    if replica.halted:
        return RaftError.STORAGE_FAILED
    leader = replica.role
    if not isinstance(leader, Leader) or leader.handover is not None:
        return RaftError.NOT_QUORUM_LEADER
    if not replica.formed:
        return RaftError.NOT_FORMED
    if replica.disk_low:
        return RaftError.DISK_LOW
    return None
