"""Linearizable reads on a replica that is not the leader (a follower or an observer).

Owns the steps from a read to a confirmed offset that this replica has reached. Must not know how
the leader proves its leadership (`reads.py`), nor what is read.
Source: KIP-650, "Non-leader Linearizable Read".

1. After the read has arrived, the replica requests a read offset from the leader (ReadOffset).
2. When its own high watermark has reached that offset the read is confirmed, and answered from the
replica's own state.
3. A request that fails, or whose leader was replaced, is repeated once: to a new leader at once, to
the same one after a pause. The KIP draft leaves retries to the client; one retry is enough to hide
an election from it.
4. A second failure or the deadline ends the read, with the known cause.
5. A replica that becomes leader continues its waiting reads as its own.
"""

from quorum_node.raft import reads
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import FailureReason
from quorum_node.raft.following import asked_leader_id
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import ReadOffsetRequest, ReadOffsetResponse
from quorum_node.raft.outputs import ReadConfirmed, ReadFailed
from quorum_node.raft.replica_state import Outstanding, ReplicaState
from quorum_node.raft.roles import Follower, Link
from quorum_node.raft.transitions import observe_leader
from quorum_node.raft.unfinished import RemoteRead

MAX_QUESTIONS = 2

_FAILURES = {
    FailureReason.TIMEOUT: RaftError.READ_NOT_CONFIRMED,
    FailureReason.UNSUPPORTED: RaftError.READS_UNSUPPORTED,
}
_FINAL = (RaftError.INVALID_CLUSTER_ID, RaftError.READS_UNSUPPORTED)


def request_remote_read(replica: ReplicaState, read_id: int) -> None:
    """Accept a read; `proceed` sends the request."""
    if replica.stopping:
        replica.out.append(ReadFailed(read_id, RaftError.SHUTTING_DOWN))
        return
    deadline_ms = replica.now_ms + replica.config.read_timeout_ms
    replica.remote_reads.append(RemoteRead(read_id, deadline_ms))


def abandon_remote_read(replica: ReplicaState, read_id: int) -> None:
    """The read is no longer needed."""
    replica.remote_reads = [read for read in replica.remote_reads if read.read_id != read_id]


def proceed(replica: ReplicaState) -> bool:
    """After any event: send requests, confirm, give up. True if parked fetches have to be answered now."""
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
    """When `proceed` has work to do without another event."""
    return min(
        min(read.deadline_ms, read.retry_ms) if read.retry_ms > replica.now_ms else read.deadline_ms
        for read in replica.remote_reads
    )


def handle_read_offset_response(
    replica: ReplicaState, sent: Outstanding, correlation: int, response: ReadOffsetResponse
) -> None:
    """The leader's offset, or its refusal. A late response to a repeated request is ignored."""
    read = _asked_by(replica, correlation)
    if read is not None and response.error is RaftError.NONE and response.offset >= 0:
        read.offset = response.offset
        return
    asked_id = asked_leader_id(replica, sent)
    observe_leader(replica, response.leader, asked_id, error=response.error)
    if read is not None:
        # The wire has one code for everything that is not supported.
        unsupported = response.error is RaftError.UNSUPPORTED_VERSION
        failure = RaftError.READS_UNSUPPORTED if unsupported else response.error
        _question_failed(replica, read, failure)


def handle_read_offset_failure(
    replica: ReplicaState, correlation: int, reason: FailureReason
) -> None:
    """The request got no response."""
    read = _asked_by(replica, correlation)
    if read is not None:
        failure = _FAILURES.get(reason, RaftError.LEADER_NOT_AVAILABLE)
        _question_failed(replica, read, failure)


def _is_waiting(replica: ReplicaState, read: RemoteRead) -> bool:
    """Progress one read; False when it has ended."""
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
        return True  # the response of the leader that was asked may still come
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
    request = ReadOffsetRequest(replica.reported_cluster_id, replica.wall_clock_ms())
    read.question = replica.send(follower.endpoint, request, None)
    read.asked_epoch = replica.epoch
    read.questions += 1


def _question_failed(replica: ReplicaState, read: RemoteRead, failure: RaftError) -> None:
    read.question, read.failure = None, failure
    # A pause, in which a fetch shows whether that leader is alive; a new leader is asked at once.
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
