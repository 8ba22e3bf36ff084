"""Linearizable reads on the leader: its own, and those of replicas that ask for a read offset.

Owns when a read is confirmed. Must not know what is read, nor what the other replica does with the
offset (`remote_reads.py`).
Source: KIP-650, "Non-leader Linearizable Read"; Raft's ReadIndex, adapted to a protocol in which
followers pull:

1. A read opens a new answer round, unless no answer has carried the current round yet.
2. All parked fetches are answered at once. Every fetch response carries the current round.
3. A follower's next fetch echoes the round of the last response that it processed from this leader
in this epoch. Such a fetch causally follows the read, and its sender was in this epoch then.
4. A majority of echoes >= the read's round proves that no newer leader was elected before the read
arrived. The majority is required in the latest and in the committed voter set; the leader counts
itself if it is a voter. Voters of stock Kafka echo no rounds: if there is no majority without them,
the read fails at once.
5. The offset is the high watermark at arrival. If no record of the leader's own epoch was committed
by then, it is the high watermark after that commit.

The proof depends on no clock and no timer.
"""

from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Leader, PendingRead
from quorum_node.raft.messages import CurrentLeader, ReadOffsetRequest, ReadOffsetResponse
from quorum_node.raft.outputs import ReadConfirmed, ReadFailed
from quorum_node.raft.quorum import can_reach_majority, majority_value
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.voters import VoterSet
from quorum_node.records.identity import ReplicaKey


def request_read(replica: ReplicaState, leader: Leader, read_id: int) -> bool:
    """Accept a read of this process; True if parked fetches have to be answered now."""
    return _begin(replica, leader, read_id=read_id)


def handle_read_offset(replica: ReplicaState, request_id: int, request: ReadOffsetRequest) -> bool:
    """Accept a read of another replica; True if parked fetches have to be answered now."""
    leader, current = replica.role, replica.current_leader()
    if request.cluster_id is not None and replica.cluster_id not in (None, request.cluster_id):
        replica.respond(request_id, ReadOffsetResponse(RaftError.INVALID_CLUSTER_ID, current))
    elif request.stale:
        age_ms = _age_ms(replica)
        offset = replica.high_watermark
        replica.respond(request_id, ReadOffsetResponse(RaftError.NONE, current, offset, age_ms))
    elif not isinstance(leader, Leader):
        replica.respond(request_id, ReadOffsetResponse(RaftError.NOT_QUORUM_LEADER, current))
    else:
        return _begin(replica, leader, request_id=request_id)
    return False


def abandon_read(
    replica: ReplicaState, *, read_id: int | None = None, request_id: int | None = None
) -> None:
    """The read is no longer needed."""
    leader = replica.role
    if isinstance(leader, Leader):
        for read in leader.reads:
            if (read.read_id, read.request_id) == (read_id, request_id):
                leader.reads.remove(read)
                return


def fail_reads(
    replica: ReplicaState, leader: Leader, error: RaftError, next_leader: CurrentLeader
) -> None:
    """Fail all reads: this leader can't confirm them any more."""
    for read in leader.reads:
        if read.read_id is not None:
            replica.out.append(ReadFailed(read.read_id, error))
        if read.request_id is not None:
            replica.respond(read.request_id, ReadOffsetResponse(error, next_leader))
    leader.reads.clear()


def own_epoch_committed(replica: ReplicaState, leader: Leader) -> None:
    """Assign the offset to reads that arrived before the first commit of this epoch."""
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
        _confirmed(replica, leader.reads.popleft())


def has_state_as_of(replica: ReplicaState, ms: float) -> None:
    """Follower: this replica has committed everything that the leader had committed at that time."""
    replica.as_of_ms = ms


def keep_state_as_of(replica: ReplicaState) -> None:
    """A leader that resigns: keep the last time for which it knew the committed state."""
    replica.as_of_ms = state_as_of_ms(replica)


def state_as_of_ms(replica: ReplicaState) -> float | None:
    """Time up to which this replica has everything that its known leader had committed; None: unknown.

    A leader has it for the time at which a majority last fetched. Both may be behind a newer leader
    that is unknown here yet. So this is no bound for a linearizable read and never used
    for one.
    """
    leader = replica.role
    if not isinstance(leader, Leader) or not leader.own_epoch_committed:
        return replica.as_of_ms

    def heard_ms(key: ReplicaKey) -> float:
        return replica.now_ms if key == replica.key else leader.last_contact_ms(key)

    voters = replica.voters.latest.voters
    return majority_value(voters, heard_ms) if len(voters) else replica.as_of_ms


def _begin(
    replica: ReplicaState,
    leader: Leader,
    *,
    read_id: int | None = None,
    request_id: int | None = None,
) -> bool:
    if not _is_confirmable(replica, leader):
        if read_id is not None:
            replica.out.append(ReadFailed(read_id, RaftError.READS_UNSUPPORTED))
        if request_id is not None:
            current = replica.current_leader()
            refusal = ReadOffsetResponse(RaftError.READS_UNSUPPORTED, current)
            replica.respond(request_id, refusal)
        return False
    if leader.round_sent:
        leader.answer_round += 1
        leader.round_sent = False
    offset = replica.high_watermark if leader.own_epoch_committed else None
    leader.reads.append(PendingRead(leader.answer_round, offset, read_id, request_id))
    confirm_reads(replica, leader)
    return bool(leader.reads)


def _is_confirmable(replica: ReplicaState, leader: Leader) -> bool:
    """Whether enough voters may echo a round; those without a fetch in this epoch count as possible."""
    stock = {key for key, each in leader.progress.items() if each.stock}
    return not stock or can_reach_majority(replica.voters.latest.voters, stock)


def _confirmed(replica: ReplicaState, read: PendingRead) -> None:
    assert read.offset is not None
    if read.read_id is not None:
        replica.out.append(ReadConfirmed(read.read_id, read.offset))
    if read.request_id is not None:
        leader = replica.current_leader()
        replica.respond(read.request_id, ReadOffsetResponse(RaftError.NONE, leader, read.offset))


def _age_ms(replica: ReplicaState) -> int:
    then_ms = state_as_of_ms(replica)
    return -1 if then_ms is None else max(0, round(replica.now_ms - then_ms))


def _majority_round(replica: ReplicaState, leader: Leader, voters: VoterSet) -> float:
    if not len(voters):
        return -1
    own, progress, round_now = replica.key, leader.progress, leader.answer_round
    return majority_value(
        voters,
        lambda key: round_now if key == own else progress[key].answer if key in progress else -1,
    )
