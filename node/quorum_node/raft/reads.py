"""Linearizable reads on the leader.

Owns when a read is confirmed. Must not know what is read.
Source: KIP-650, "Non-leader Linearizable Read"; Raft's ReadIndex, turned around for a protocol in
which followers pull:

1. A read opens a new answer round, unless the current round was not yet told to anyone.
2. All parked fetches are answered at once; every fetch answer carries the current round.
3. A follower's next fetch echoes the round of the last answer that it processed from this leader in
   this epoch. Such a fetch causally follows the read, and its sender was in this epoch then.
4. A majority of echoes >= the read's round (of the latest and of the committed voter set; the
   leader counts itself if it is a voter) proves that no newer leader was elected before the read arrived.
5. The offset is the high watermark at arrival, or, if no record of the leader's own epoch was
   committed yet, the high watermark of that commit.

No clock and no timer takes part.
"""

from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Leader, PendingRead
from quorum_node.raft.outputs import ReadConfirmed, ReadFailed
from quorum_node.raft.quorum import majority_value
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.voters import VoterSet


def request_read(replica: ReplicaState, read_id: int) -> bool:
    """Take a read; True if parked fetches have to be answered now."""
    leader = replica.role
    if not isinstance(leader, Leader) or replica.halted:
        error = RaftError.STORAGE_FAILED if replica.halted else RaftError.NOT_QUORUM_LEADER
        replica.out.append(ReadFailed(read_id, error))
        return False
    if leader.round_sent:
        leader.answer_round += 1
        leader.round_sent = False
    offset = replica.high_watermark if leader.own_epoch_committed else None
    leader.reads.append(PendingRead(read_id, leader.answer_round, offset))
    confirm_reads(replica, leader)
    return bool(leader.reads)


def abandon_read(replica: ReplicaState, read_id: int) -> None:
    """Nobody waits for it any more."""
    leader = replica.role
    if isinstance(leader, Leader):
        for read in leader.reads:
            if read.read_id == read_id:
                leader.reads.remove(read)
                return


def own_epoch_committed(replica: ReplicaState, leader: Leader) -> None:
    """Reads that came before the first commit of this epoch get their offset now."""
    for read in leader.reads:
        if read.offset is None:
            read.offset = replica.high_watermark
    confirm_reads(replica, leader)


def confirm_reads(replica: ReplicaState, leader: Leader) -> None:
    """Confirm every read whose round a majority has echoed."""
    if not leader.reads or not leader.own_epoch_committed:
        return
    voters = replica.voters
    echoed = _majority_round(replica, leader, voters.latest.voters)
    if not voters.latest_is_committed:
        echoed = min(echoed, _majority_round(replica, leader, voters.committed.voters))
    while leader.reads and leader.reads[0].round <= echoed:
        read = leader.reads.popleft()
        assert read.offset is not None
        replica.out.append(ReadConfirmed(read.read_id, read.offset))


def _majority_round(replica: ReplicaState, leader: Leader, voters: VoterSet) -> float:
    if not len(voters):
        return -1
    own, progress, round_now = replica.key, leader.progress, leader.answer_round
    return majority_value(
        voters,
        lambda key: round_now if key == own else progress[key].answer if key in progress else -1,
    )
