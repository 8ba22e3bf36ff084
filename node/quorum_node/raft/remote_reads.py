"""Linearizable reads on a replica that does not lead (a follower or an observer).

Owns the way from a read to a confirmed offset that this replica has reached. Must not know how the
leader proves that it leads (`reads.py`), nor what is read.
Source: KIP-650, "Non-leader Linearizable Read".

1. The read asks the leader for a read offset (ReadOffset), after it arrived here.
2. The offset told, it waits until this replica's own high watermark has reached it; then it is
   confirmed, and answered from this replica's own state.
3. A question that fails, or whose leader is followed by another, is put once more: to a new leader
   at once, to the same one after a pause. The draft leaves retries to the client; one is enough to
   make an election invisible.
4. A second failure or the deadline ends the read, with what is known of the cause.
5. A replica that becomes leader itself takes its waiting reads along, as its own.
"""

from quorum_node.raft import reads
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import FailureReason
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import ReadOffsetRequest, ReadOffsetResponse
from quorum_node.raft.outputs import ReadConfirmed, ReadFailed
from quorum_node.raft.replica_state import RemoteRead, ReplicaState
from quorum_node.raft.roles import Follower, Link
from quorum_node.raft.transitions import observe_leader

MAX_QUESTIONS = 2

_FAILURES = {
    FailureReason.TIMEOUT: RaftError.READ_NOT_CONFIRMED,
    FailureReason.UNSUPPORTED: RaftError.READS_UNSUPPORTED,
}
_FINAL = (RaftError.INVALID_CLUSTER_ID, RaftError.READS_UNSUPPORTED)


def request_remote_read(replica: ReplicaState, read_id: int) -> None:
    """Take a read; `proceed` asks."""
    if replica.stopping:
        replica.out.append(ReadFailed(read_id, RaftError.SHUTTING_DOWN))
        return
    deadline_ms = replica.now_ms + replica.config.read_timeout_ms
    replica.remote_reads.append(RemoteRead(read_id, deadline_ms))


def abandon_remote_read(replica: ReplicaState, read_id: int) -> None:
    """Nobody waits for it any more."""
    replica.remote_reads = [read for read in replica.remote_reads if read.read_id != read_id]


def proceed(replica: ReplicaState) -> bool:
    """After any event: ask, confirm, give up. True if parked fetches have to be answered now."""
    if replica.halted:
        for read in replica.remote_reads:
            _fail(replica, read, RaftError.SHUTTING_DOWN)
        replica.remote_reads = []
        return False
    waiting, replica.remote_reads = replica.remote_reads, []
    opened_round = False
    leader = replica.role if isinstance(replica.role, Leader) else None
    for read in waiting:
        if read.offset is None and leader is not None:
            opened_round |= reads.request_read(replica, leader, read.read_id)
        elif _is_waiting(replica, read):
            replica.remote_reads.append(read)
    return opened_round


def next_deadline_ms(replica: ReplicaState) -> float:
    """When `proceed` has something to do without another event."""
    return min(
        min(read.deadline_ms, read.retry_ms) if read.retry_ms > replica.now_ms else read.deadline_ms
        for read in replica.remote_reads
    )


def handle_read_offset_response(
    replica: ReplicaState, correlation: int, response: ReadOffsetResponse
) -> None:
    """The leader's offset, or its refusal; a late answer to a question put anew is ignored."""
    read = _asked_by(replica, correlation)
    if read is not None and response.error is RaftError.NONE and response.offset >= 0:
        read.offset = response.offset
        return
    observe_leader(replica, response.leader)
    if read is not None:
        # The wire has one code for all that is not supported.
        unsupported = response.error is RaftError.UNSUPPORTED_VERSION
        failure = RaftError.READS_UNSUPPORTED if unsupported else response.error
        _question_failed(replica, read, failure)


def handle_read_offset_failure(
    replica: ReplicaState, correlation: int, reason: FailureReason
) -> None:
    """No answer."""
    read = _asked_by(replica, correlation)
    if read is not None:
        failure = _FAILURES.get(reason, RaftError.LEADER_NOT_AVAILABLE)
        _question_failed(replica, read, failure)


def _is_waiting(replica: ReplicaState, read: RemoteRead) -> bool:
    """Move on with one read; False when it has ended."""
    if read.offset is not None and replica.high_watermark >= read.offset:
        replica.out.append(ReadConfirmed(read.read_id, read.offset))
        return False
    if read.failure in _FINAL or replica.now_ms >= read.deadline_ms:
        _fail(replica, read, _cause(replica, read))
        return False
    if read.offset is not None:
        return True
    follower = replica.role
    if not isinstance(follower, Follower):
        return True  # the answer of the leader that was asked may still come
    if read.question is not None and read.asked_epoch != replica.epoch:
        _question_failed(replica, read, RaftError.LEADER_NOT_AVAILABLE)
    if read.question is not None:
        return True
    if read.questions >= MAX_QUESTIONS:
        _fail(replica, read, _cause(replica, read))
        return False
    new_leader = read.asked_epoch != replica.epoch
    if follower.link in (Link.OPEN, Link.SILENT) and (
        new_leader or replica.now_ms >= read.retry_ms
    ):
        _ask(replica, follower, read)
    return True


def _ask(replica: ReplicaState, follower: Follower, read: RemoteRead) -> None:
    request = ReadOffsetRequest(replica.told_cluster_id, replica.wall_clock_ms())
    read.question = replica.send(follower.endpoint, request, None)
    read.asked_epoch = replica.epoch
    read.questions += 1


def _question_failed(replica: ReplicaState, read: RemoteRead, failure: RaftError) -> None:
    read.question, read.failure = None, failure
    # Time for a fetch to find out whether that leader is still there; another one is asked at once.
    read.retry_ms = replica.now_ms + replica.config.election_timeout_ms / 4


def _cause(replica: ReplicaState, read: RemoteRead) -> RaftError:
    if read.offset is not None:
        return RaftError.REPLICA_BEHIND
    if not isinstance(replica.role, Follower):
        return RaftError.LEADER_NOT_AVAILABLE
    if read.question is not None:
        return RaftError.READ_NOT_CONFIRMED
    if read.failure in (None, RaftError.NOT_QUORUM_LEADER):
        return RaftError.LEADER_NOT_AVAILABLE
    return read.failure


def _fail(replica: ReplicaState, read: RemoteRead, error: RaftError) -> None:
    replica.out.append(ReadFailed(read.read_id, error))


def _asked_by(replica: ReplicaState, correlation: int) -> RemoteRead | None:
    for read in replica.remote_reads:
        if read.question == correlation:
            return read
    return None
