"""The high watermark, and what depends on it.

Owns when a record is committed and what follows. Must not know how replicas reported their offsets.
Source: KIP-595, "Extra condition on commitment" (Raft, figure 8): nothing is committed in an epoch
before a record of that epoch is on a majority of the latest voter set.

While a voter change of this leader is not committed, a majority of the voter set before it is
required as well. Without contact to it the leader resigns (`check_quorum.py`), as it could not commit
anything until its next epoch. For an uncommitted voter set of an earlier leader only its own majority is
required, as in Raft: it may be committed without this leader knowing, and a removed voter that was
shut down can't be waited for. (The simulation found a quorum that could never commit again because
of that.)
"""

from quorum_node.raft import reads
from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import ChangePhase, Leader
from quorum_node.raft.messages import VoterChangeResponse
from quorum_node.raft.outputs import HighWatermarkAdvanced, ProposalCommitted
from quorum_node.raft.quorum import majority_value
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.voters import VoterSet
from quorum_node.records.identity import ReplicaKey


def durable_end_of(replica: ReplicaState, leader: Leader, key: ReplicaKey) -> int:
    """End offset up to which `key` is known to have durable records; for the leader its own durable end."""
    if key == replica.key:
        return replica.durable_end
    progress = leader.progress.get(key)
    return -1 if progress is None else progress.end_offset


def advance_as_leader(replica: ReplicaState, leader: Leader) -> None:
    """Raise the high watermark as far as both majorities allow."""
    if replica.log_end <= replica.high_watermark:
        return
    voters = replica.voters
    committed = min(_majority_end(replica, leader, each) for each in voters.deciding(replica.epoch))
    if committed <= replica.high_watermark or committed <= leader.epoch_start_offset:
        return
    replica.is_committed(committed)
    first = not leader.own_epoch_committed
    leader.own_epoch_committed = True
    replica.out.append(HighWatermarkAdvanced(committed))
    proposals = leader.proposals
    while proposals and proposals[0].end_offset <= committed:
        done = proposals.popleft()
        replica.out.append(
            ProposalCommitted(done.proposal_id, done.base_offset, done.end_offset, replica.epoch)
        )
    linger_ms = replica.now_ms + replica.config.high_watermark_linger_ms
    for parked in leader.parked.values():
        if linger_ms < parked.deadline_ms and not parked.has_turn:
            parked.deadline_ms = linger_ms
    if first:
        reads.own_epoch_committed(replica, leader)
    if not voters.latest_is_committed and voters.latest.offset < committed:
        replica.commit_voters()
        leader.plan_look_ms = replica.now_ms
        leader.plan_failures.clear()
        _finish_change(replica, leader)


def advance_as_follower(replica: ReplicaState, leader_high_watermark: int) -> None:
    """Take over the leader's high watermark, up to the end of the own log."""
    replica.leader_high_watermark = leader_high_watermark
    committed = min(leader_high_watermark, replica.log_end)
    if committed <= replica.high_watermark:
        return
    replica.is_committed(committed)
    replica.out.append(HighWatermarkAdvanced(committed))
    voters = replica.voters
    if not voters.latest_is_committed:
        replica.commit_voters()
    if replica.leader_is_unsaved and replica.epochs.epoch_at(committed - 1) == replica.epoch:
        replica.schedule_leader_save(replica.now_ms)


def required_to_form(replica: ReplicaState, initial_voters: int | None) -> int:
    """Number of voters that a new quorum needs.

    The number in the voters record precedes the configured one.
    """
    return initial_voters if initial_voters is not None else replica.config.initial_voters


def _majority_end(replica: ReplicaState, leader: Leader, voters: VoterSet) -> int:
    if not len(voters):
        return -1
    return int(majority_value(voters, lambda key: durable_end_of(replica, leader, key)))


def _finish_change(replica: ReplicaState, leader: Leader) -> None:
    change = leader.change
    if change is None or change.phase is not ChangePhase.COMMITTING:
        return
    position = change.position
    if position is None or position.offset >= replica.high_watermark:
        return
    leader.change = None
    if change.request_id is not None:
        replica.respond(
            change.request_id,
            VoterChangeResponse(RaftError.NONE, replica.current_leader(), "", position),
        )
