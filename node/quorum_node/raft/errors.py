"""Outcomes of a request, a proposal or a read.

Owns the names, which are those of the documents (KIP-595, "Error Codes"; KIP-853 as shipped). Must
not know their numbers on the wire: `server/wire/` maps them (a shipped API has no
NOT_QUORUM_LEADER).
"""

from enum import Enum


class RaftError(Enum):
    """NONE, or why a request failed. The value is the text of the message."""

    NONE = "ok"
    # KIP-595, "Error Codes"
    INVALID_CLUSTER_ID = "the cluster id does not match"
    FENCED_LEADER_EPOCH = "the leader epoch is older than the known one"
    UNKNOWN_LEADER_EPOCH = "the leader epoch is newer than the known one"
    OFFSET_OUT_OF_RANGE = "the fetch offset does not agree with the leader's log"
    NOT_QUORUM_LEADER = "this replica is not the leader"
    INVALID_QUORUM_STATE = "the request conflicts with the known leader or vote of this epoch"
    INCONSISTENT_VOTER_SET = "this replica is not in the list of the request"
    NOT_FOLLOWER = "this replica was removed from the voters; continue as an observer"
    # KIP-853, as shipped
    INVALID_VOTER_KEY = "the request is for another replica key"
    DUPLICATE_VOTER = "this replica is a voter already"
    VOTER_NOT_FOUND = "there is no such voter"
    REQUEST_TIMED_OUT = "not done within the request's timeout"
    UNSUPPORTED_VERSION = "the replica does not support the kraft.version of the quorum"
    INVALID_REQUEST = "the request is invalid"
    # KIP-630
    SNAPSHOT_NOT_FOUND = "there is no such snapshot here"
    POSITION_OUT_OF_RANGE = "the position is not within the snapshot"
    # ours, finer than a shipped code
    VOTER_CHANGE_PENDING = "another change of the voters is in progress"
    EPOCH_NOT_COMMITTED = "the leader has not committed a record of its own epoch yet"
    STALE_VOTERS_POSITION = "the voters changed since the caller read them"
    UNSAFE_CHANGE = "too few live, caught-up voters for this change"
    NEW_VOTER_ID = "a static quorum takes no new voter ids"
    NODE_ID_IN_USE = "a broker is registered with this node id"
    NOT_CAUGHT_UP = "the replica has not caught up"
    LEADER_NOT_AVAILABLE = "no leader is known or reachable"
    READ_NOT_CONFIRMED = "the leader did not confirm in time that it still leads"
    REPLICA_BEHIND = "this replica did not reach the confirmed offset in time"
    READS_UNSUPPORTED = "the leader or too many voters run stock Kafka, which can't confirm reads"
    TOMBSTONED = "this replica was removed from the voters; only AddVoter can make it a voter again"
    NOT_FORMED = "not all initial voters have joined yet"
    ALTERATION_PENDING = "an AlterQuorum is in progress"
    VOTER_LACKS_FEATURE = "a voter does not support target voters"
    DISK_LOW = "the disk is almost full"
    LEADERSHIP_LOST = "leadership was lost before the commit; the outcome is unknown"
    STORAGE_FAILED = "the storage of this replica failed"
    SHUTTING_DOWN = "this replica is shutting down"
