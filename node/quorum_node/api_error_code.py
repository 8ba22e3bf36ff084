"""The codes of the admin HTTP API's error bodies. Data only; a part of `api.py`."""

from enum import StrEnum


class ErrorCode(StrEnum):
    """`code` of an ErrorBody. A response with status 409 means that nothing was changed."""

    NO_LEADER = "NO_LEADER"
    """503: no leader is known, try again."""
    NOT_LEADER = "NOT_LEADER"
    """421: this node is not the leader; `leaderUrl` names it. 503: it lost leadership during the
    request.

    Nothing was changed. The URL comes from the log: send a token only to a host that you trust.
    """
    NOT_CONFIRMED = "NOT_CONFIRMED"
    """503: no majority confirmed the leader within the timeout."""
    REPLICA_BEHIND = "REPLICA_BEHIND"
    """503: the leader confirmed the read, but this replica has not applied that offset yet. Ask
    another node.
    """
    READS_UNSUPPORTED = "READS_UNSUPPORTED"
    """503: the leader, or too many voters, run stock Kafka, which can't confirm reads; read locally."""
    TIMED_OUT = "TIMED_OUT"
    """504: the outcome is unknown. The write may still commit. Repeating it is safe unless another
    client writes the same key.
    """
    NOT_FORMED = "NOT_FORMED"
    """409: client writes are refused until all initial voters have joined."""
    DISK_LOW = "DISK_LOW"
    """507: the leader refuses appends below its reserve of free bytes."""
    STORAGE_FAILED = "STORAGE_FAILED"
    """503: the disk of the node has failed. It serves no requests any more."""
    SHUTTING_DOWN = "SHUTTING_DOWN"
    """503: the node is stopping."""
    LEADERSHIP_LOST = "LEADERSHIP_LOST"
    """503: the leader stepped down before the outcome was known. The write may still commit. Repeating
    it is safe unless another client writes the same key.
    """
    CHANGE_PENDING = "CHANGE_PENDING"
    """409: another voter change is not committed yet."""
    STALE_POSITION = "STALE_POSITION"
    """409: the voters record is not the expected one (compare-and-set)."""
    DUPLICATE_VOTER = "DUPLICATE_VOTER"
    """409: that replica key is a voter already."""
    VOTER_NOT_FOUND = "VOTER_NOT_FOUND"
    """409: that replica key is not a voter."""
    NOT_CAUGHT_UP = "NOT_CAUGHT_UP"
    """409: the new voter did not catch up within the timeout."""
    OWN_EPOCH_NOT_COMMITTED = "OWN_EPOCH_NOT_COMMITTED"
    """409: the leader has not yet committed a record of its own epoch; try again."""
    UNSAFE_CHANGE = "UNSAFE_CHANGE"
    """409: the change would leave fewer live voters than a majority."""
    LEADER_IS_STOCK = "LEADER_IS_STOCK"
    """409: the leader has no admin API (stock Kafka); use its Kafka protocol."""
    NEW_VOTER_ID = "NEW_VOTER_ID"
    """409: the quorum is configured by controller.quorum.voters, which is a fixed list of ids."""
    NODE_ID_IN_USE = "NODE_ID_IN_USE"
    """409: a broker is registered with that node id, and brokers and controllers share one id space."""
    ALTERATION_PENDING = "ALTERATION_PENDING"
    """409: an AlterQuorum is in progress; single voter changes have to wait."""
    UNSUPPORTED = "UNSUPPORTED"
    """409: a voter does not support the request."""
    INVALID_REQUEST = "INVALID_REQUEST"
    """400 or 422: the request is invalid; the message names the field."""
    NOT_FOUND = "NOT_FOUND"
    """404: the key does not exist."""
    UNAUTHORIZED = "UNAUTHORIZED"
    """401: the call needs a certificate or the admin token.

    403: the caller lacks the right that the message names, or the node has no admin token and the
    call comes from another host.
    """
    TOO_LARGE = "TOO_LARGE"
    """413: the records do not fit into one batch."""
    OFFSET_BEFORE_LOG_START = "OFFSET_BEFORE_LOG_START"
    """410: these records were deleted; a snapshot covers them."""
    SNAPSHOT_REFUSED = "SNAPSHOT_REFUSED"
    """409: no snapshot can be written of this state now; the message says why."""
    BUSY = "BUSY"
    """503: too many long reads at once; try again."""
    INTERNAL = "INTERNAL"
    """500: a bug."""
