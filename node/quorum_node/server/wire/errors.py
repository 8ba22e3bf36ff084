"""Translates between the core's outcomes and Kafka's error codes.

The APIs of shipped Kafka lack the codes NOT_QUORUM_LEADER, INVALID_CLUSTER_ID, INVALID_QUORUM_STATE and NOT_FOLLOWER of KIP-595 (the
draft). They use the nearest shipped code; a removed voter detects its removal by the voters record that it fetches. Private APIs use the
draft's codes. For replicas of this software, the answers to Fetch, Vote, BeginQuorumEpoch and EndQuorumEpoch contain the draft's code in a
private field. Outcomes that are more specific than any code are sent as the nearest code and a message.
"""

from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.errors import RaftError

_TO_WIRE = {
    RaftError.NONE: ErrorCode.NONE,
    RaftError.INVALID_CLUSTER_ID: ErrorCode.INCONSISTENT_CLUSTER_ID,
    RaftError.FENCED_LEADER_EPOCH: ErrorCode.FENCED_LEADER_EPOCH,
    RaftError.UNKNOWN_LEADER_EPOCH: ErrorCode.UNKNOWN_LEADER_EPOCH,
    RaftError.OFFSET_OUT_OF_RANGE: ErrorCode.OFFSET_OUT_OF_RANGE,
    RaftError.NOT_QUORUM_LEADER: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    RaftError.INVALID_QUORUM_STATE: ErrorCode.INVALID_REQUEST,
    RaftError.INCONSISTENT_VOTER_SET: ErrorCode.INCONSISTENT_VOTER_SET,
    RaftError.NOT_FOLLOWER: ErrorCode.NONE,
    RaftError.INVALID_VOTER_KEY: ErrorCode.INVALID_VOTER_KEY,
    RaftError.DUPLICATE_VOTER: ErrorCode.DUPLICATE_VOTER,
    RaftError.VOTER_NOT_FOUND: ErrorCode.VOTER_NOT_FOUND,
    RaftError.SNAPSHOT_NOT_FOUND: ErrorCode.SNAPSHOT_NOT_FOUND,
    RaftError.POSITION_OUT_OF_RANGE: ErrorCode.POSITION_OUT_OF_RANGE,
    RaftError.REQUEST_TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
    RaftError.UNSUPPORTED_VERSION: ErrorCode.UNSUPPORTED_VERSION,
    RaftError.INVALID_REQUEST: ErrorCode.INVALID_REQUEST,
    # Shipped Kafka answers these two with REQUEST_TIMED_OUT as well, so that clients retry.
    RaftError.VOTER_CHANGE_PENDING: ErrorCode.REQUEST_TIMED_OUT,
    RaftError.EPOCH_NOT_COMMITTED: ErrorCode.REQUEST_TIMED_OUT,
    RaftError.NOT_CAUGHT_UP: ErrorCode.REQUEST_TIMED_OUT,
    RaftError.LEADER_NOT_AVAILABLE: ErrorCode.LEADER_NOT_AVAILABLE,
    RaftError.READ_NOT_CONFIRMED: ErrorCode.REQUEST_TIMED_OUT,
    RaftError.REPLICA_BEHIND: ErrorCode.REQUEST_TIMED_OUT,
    RaftError.READS_UNSUPPORTED: ErrorCode.UNSUPPORTED_VERSION,
    RaftError.STALE_VOTERS_POSITION: ErrorCode.POLICY_VIOLATION,
    RaftError.UNSAFE_CHANGE: ErrorCode.POLICY_VIOLATION,
    RaftError.NEW_VOTER_ID: ErrorCode.POLICY_VIOLATION,
    RaftError.NODE_ID_IN_USE: ErrorCode.DUPLICATE_BROKER_REGISTRATION,
    RaftError.TOMBSTONED: ErrorCode.POLICY_VIOLATION,
    RaftError.NOT_FORMED: ErrorCode.POLICY_VIOLATION,
    RaftError.ALTERATION_PENDING: ErrorCode.POLICY_VIOLATION,
    RaftError.VOTER_LACKS_FEATURE: ErrorCode.UNSUPPORTED_VERSION,
    RaftError.DISK_LOW: ErrorCode.KAFKA_STORAGE_ERROR,
    RaftError.STORAGE_FAILED: ErrorCode.KAFKA_STORAGE_ERROR,
    RaftError.LEADERSHIP_LOST: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    RaftError.SHUTTING_DOWN: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}

_DRAFT = {
    RaftError.NOT_QUORUM_LEADER: ErrorCode.NOT_QUORUM_LEADER,
    RaftError.LEADERSHIP_LOST: ErrorCode.NOT_QUORUM_LEADER,
    RaftError.INVALID_CLUSTER_ID: ErrorCode.INVALID_CLUSTER_ID,
    RaftError.INVALID_QUORUM_STATE: ErrorCode.INVALID_QUORUM_STATE,
    RaftError.NOT_FOLLOWER: ErrorCode.NOT_FOLLOWER,
}

_FROM_WIRE = {
    ErrorCode.NONE: RaftError.NONE,
    ErrorCode.INCONSISTENT_CLUSTER_ID: RaftError.INVALID_CLUSTER_ID,
    ErrorCode.FENCED_LEADER_EPOCH: RaftError.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH: RaftError.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_OUT_OF_RANGE: RaftError.OFFSET_OUT_OF_RANGE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: RaftError.NOT_QUORUM_LEADER,
    ErrorCode.NOT_CONTROLLER: RaftError.NOT_QUORUM_LEADER,
    ErrorCode.BROKER_NOT_AVAILABLE: RaftError.NOT_QUORUM_LEADER,
    ErrorCode.INCONSISTENT_VOTER_SET: RaftError.INCONSISTENT_VOTER_SET,
    ErrorCode.INVALID_VOTER_KEY: RaftError.INVALID_VOTER_KEY,
    ErrorCode.DUPLICATE_VOTER: RaftError.DUPLICATE_VOTER,
    ErrorCode.VOTER_NOT_FOUND: RaftError.VOTER_NOT_FOUND,
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: RaftError.NODE_ID_IN_USE,
    ErrorCode.SNAPSHOT_NOT_FOUND: RaftError.SNAPSHOT_NOT_FOUND,
    ErrorCode.POSITION_OUT_OF_RANGE: RaftError.POSITION_OUT_OF_RANGE,
    ErrorCode.REQUEST_TIMED_OUT: RaftError.REQUEST_TIMED_OUT,
    # RaftError.READS_UNSUPPORTED is sent as this code, too: a receiver distinguishes the two by the API of the answer.
    ErrorCode.UNSUPPORTED_VERSION: RaftError.UNSUPPORTED_VERSION,
    ErrorCode.KAFKA_STORAGE_ERROR: RaftError.STORAGE_FAILED,
    ErrorCode.NOT_QUORUM_LEADER: RaftError.NOT_QUORUM_LEADER,
    ErrorCode.INVALID_CLUSTER_ID: RaftError.INVALID_CLUSTER_ID,
    ErrorCode.INVALID_QUORUM_STATE: RaftError.INVALID_QUORUM_STATE,
    ErrorCode.NOT_FOLLOWER: RaftError.NOT_FOLLOWER,
}


def wire_error(error: RaftError) -> ErrorCode:
    """The code for an outcome. Every outcome has a code: without one, the tests fail with a KeyError."""
    return _TO_WIRE[error]


def draft_error(error: RaftError) -> ErrorCode:
    """The code for an outcome on a private API: the draft's code if there is one, else the shipped one."""
    return _DRAFT.get(error) or wire_error(error)


def draft_field(error: RaftError) -> int:
    """The draft's code that accompanies a shipped one; 0 if the shipped code is the draft's."""
    return 0 if error is RaftError.NONE else _DRAFT.get(error, 0)


_NOT_CONTROLLER = frozenset(
    {
        RaftError.NOT_QUORUM_LEADER,
        RaftError.LEADER_NOT_AVAILABLE,
        RaftError.READS_UNSUPPORTED,
        RaftError.LEADERSHIP_LOST,
        RaftError.SHUTTING_DOWN,
        RaftError.NOT_FORMED,
        RaftError.EPOCH_NOT_COMMITTED,
        # The disk of this leader has failed: the client has to ask another controller for the outcome.
        RaftError.STORAGE_FAILED,
    }
)


def controller_error(error: RaftError) -> ErrorCode:
    """The code for a client of the controller: NOT_CONTROLLER if another node, or a later attempt, may succeed."""
    return ErrorCode.NOT_CONTROLLER if error in _NOT_CONTROLLER else wire_error(error)


def raft_error(code: int, draft_code: int = 0) -> RaftError:
    """The outcome for a code; INVALID_REQUEST for codes that the core does not use."""
    code = draft_code or code
    if code == 0:
        return RaftError.NONE
    try:
        return _FROM_WIRE.get(ErrorCode(code), RaftError.INVALID_REQUEST)
    except ValueError:
        return RaftError.INVALID_REQUEST
