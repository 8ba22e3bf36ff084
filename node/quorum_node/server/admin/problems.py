"""Outcomes of the core as HTTP statuses and ErrorBody codes. Every 409 means that nothing was changed."""

from quorum_node.api import ErrorCode
from quorum_node.raft.description import ReplicaDescription
from quorum_node.raft.errors import RaftError
from quorum_node.raft.messages import NO_LEADER
from quorum_node.raft.roles import RoleName

_STATUS: dict[RaftError, tuple[int, ErrorCode]] = {
    RaftError.INVALID_CLUSTER_ID: (409, ErrorCode.INVALID_REQUEST),
    RaftError.NOT_QUORUM_LEADER: (503, ErrorCode.NOT_LEADER),
    RaftError.LEADERSHIP_LOST: (503, ErrorCode.LEADERSHIP_LOST),
    RaftError.STORAGE_FAILED: (503, ErrorCode.STORAGE_FAILED),
    RaftError.SHUTTING_DOWN: (503, ErrorCode.SHUTTING_DOWN),
    RaftError.LEADER_NOT_AVAILABLE: (503, ErrorCode.NO_LEADER),
    RaftError.READ_NOT_CONFIRMED: (503, ErrorCode.NOT_CONFIRMED),
    RaftError.REPLICA_BEHIND: (503, ErrorCode.REPLICA_BEHIND),
    RaftError.READS_UNSUPPORTED: (503, ErrorCode.READS_UNSUPPORTED),
    RaftError.REQUEST_TIMED_OUT: (504, ErrorCode.TIMED_OUT),
    RaftError.DISK_LOW: (507, ErrorCode.DISK_LOW),
    RaftError.NOT_FORMED: (409, ErrorCode.NOT_FORMED),
    RaftError.VOTER_CHANGE_PENDING: (409, ErrorCode.CHANGE_PENDING),
    RaftError.EPOCH_NOT_COMMITTED: (409, ErrorCode.OWN_EPOCH_NOT_COMMITTED),
    RaftError.STALE_VOTERS_POSITION: (409, ErrorCode.STALE_POSITION),
    RaftError.UNSAFE_CHANGE: (409, ErrorCode.UNSAFE_CHANGE),
    RaftError.NEW_VOTER_ID: (409, ErrorCode.NEW_VOTER_ID),
    RaftError.NODE_ID_IN_USE: (409, ErrorCode.NODE_ID_IN_USE),
    RaftError.ALTERATION_PENDING: (409, ErrorCode.ALTERATION_PENDING),
    RaftError.VOTER_LACKS_FEATURE: (409, ErrorCode.UNSUPPORTED),
    RaftError.NOT_CAUGHT_UP: (409, ErrorCode.NOT_CAUGHT_UP),
    RaftError.DUPLICATE_VOTER: (409, ErrorCode.DUPLICATE_VOTER),
    RaftError.VOTER_NOT_FOUND: (409, ErrorCode.VOTER_NOT_FOUND),
    RaftError.INVALID_VOTER_KEY: (409, ErrorCode.VOTER_NOT_FOUND),
    RaftError.TOMBSTONED: (409, ErrorCode.INVALID_REQUEST),
    RaftError.UNSUPPORTED_VERSION: (409, ErrorCode.INVALID_REQUEST),
    RaftError.INVALID_REQUEST: (400, ErrorCode.INVALID_REQUEST),
}


class ApiProblem(Exception):
    """An answer that is not 2xx."""

    def __init__(self, status: int, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def problem(error: RaftError, message: str = "") -> ApiProblem:
    """The answer for an outcome of the core."""
    status, code = _STATUS.get(error, (500, ErrorCode.INTERNAL))
    return ApiProblem(status, code, message or error.value)


def invalid(message: str) -> ApiProblem:
    """400: the request itself is invalid."""
    return ApiProblem(400, ErrorCode.INVALID_REQUEST, message)


def timed_out(what: str, timeout_ms: int) -> ApiProblem:
    """504: the outcome of `what` is not known."""
    text = f"{what} did not complete within {timeout_ms} ms; it may still take effect"
    return ApiProblem(504, ErrorCode.TIMED_OUT, text)


def unconfirmed(replica: ReplicaDescription, timeout_ms: int) -> ApiProblem:
    """504: a linearizable read that was not confirmed within the caller's timeout, with the likely reason."""
    if replica.role not in (RoleName.LEADER, RoleName.FOLLOWER):
        known = (
            "none"
            if replica.leader_id == NO_LEADER
            else f"{replica.leader_id}, which does not answer"
        )
        text = f"no leader answered within {timeout_ms} ms (last known leader: {known})"
        return ApiProblem(503, ErrorCode.NO_LEADER, text)
    if replica.role is RoleName.LEADER:
        text = f"no majority confirmed this leader within {timeout_ms} ms"
    else:
        text = (
            f"leader {replica.leader_id} did not confirm the read within {timeout_ms} ms, or this"
            f" replica, at offset {replica.high_watermark}, has not reached the leader's offset yet"
        )
    return ApiProblem(503, ErrorCode.NOT_CONFIRMED, text)
