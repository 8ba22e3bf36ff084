"""Distinguishes a recovered quorum from the old quorum before the recovery.

Owns the comparison. After `--recover` a majority of the old voters may still run where the survivor
can't reach them, with their own leader and the same cluster id. The voters record contains the
epoch of the last recovery (`VotersRecord.recovered_epoch`), and so do all logs that continue from
it. Replicas that have seen a recovery send this epoch in their fetches, and the responses then
contain the responder's. Votes and BeginQuorumEpoch always contain it, even if their sender has seen
none.

* A replica that has seen a recovery follows no leader that has not, whatever its epoch. (In most
cases the epoch alone shows this, being 65,536 lower. But old voters may have learned the new
epochs.)
* It votes for no candidate that has not seen the recovery, and takes no epoch from it.
* A leader of the old quorum serves no replica that has seen a recovery, takes no epoch from it, and
reports it. It does not stop: an unauthenticated request is no proof.

Must not know how a recovery is made (`server/recovering.py`). Stock replicas lack all this; they
compare epochs only.
"""

from dataclasses import replace

from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import NO_LEADER, CurrentLeader, FetchRequest, VoteRequest
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.records.identity import ReplicaKey

_WITHHELD = CurrentLeader(NO_LEADER, 0)


def is_of_older_quorum(replica: ReplicaState, leader: CurrentLeader) -> bool:
    """Whether the responder has not seen the last recovery that this replica knows of."""
    return lacks_recovery(replica, leader.recovered_epoch)


def lacks_recovery(replica: ReplicaState, told: int) -> bool:
    """Whether a sender with this recovered epoch lacks the last recovery known here; -1: not sent."""
    return 0 <= told < replica.recovered_epoch


def is_older_candidate(replica: ReplicaState, request: VoteRequest) -> bool:
    """Whether a candidate belongs to the quorum before the last recovery known here.

    The comparison of logs is not sufficient: a leader of the old quorum in an epoch above the
    recovered one has the later epoch in its log. For a candidate that sends no recovered epoch the
    tombstones decide, unless it is a voter whose removal is pending: it may be the only one that
    can win.
    """
    if request.recovered_epoch >= 0:
        return lacks_recovery(replica, request.recovered_epoch)
    voters = replica.voters
    return _has_tombstone(replica, request.candidate) and (
        request.candidate not in voters.committed.voters
    )


def leader_for_sender(
    replica: ReplicaState, key: ReplicaKey | None, recovered_epoch: int
) -> CurrentLeader:
    """The leader to name to a sender with this key and this recovered epoch (-1: not sent).

    A sender that has seen a recovery gets the true answer. A voter from before a recovery learns the
    new epochs from the new leader alone. If it learned them elsewhere while the leader is
    unreachable, it would start elections above them with the other old voters. Tombstones of the
    recovery identify such voters.
    """
    leader = _unless_hearsay(replica, replica.current_leader(), key)
    is_older = _has_tombstone(replica, key) or lacks_recovery(replica, recovered_epoch)
    if is_older and not isinstance(replica.role, Leader):
        leader = _WITHHELD
    if recovered_epoch <= 0:
        return leader
    return replace(leader, recovered_epoch=replica.recovered_epoch)


def _unless_hearsay(
    replica: ReplicaState, leader: CurrentLeader, key: ReplicaKey | None
) -> CurrentLeader:
    """A sender that is no voter learns only leaders that have answered this replica.

    A claim of others may be false, and a new replica that has adopted its epoch can't follow the
    real leader any more.
    """
    is_voter = key is None or key in replica.voters.latest.voters
    if is_voter or not replica.follows_hearsay():
        return leader
    return replace(leader, leader_id=NO_LEADER, endpoint=None)


def _has_tombstone(replica: ReplicaState, key: ReplicaKey | None) -> bool:
    return bool(replica.recovered_epoch) and key in replica.voters.latest.record.tombstones


def withholds_leader(leader: CurrentLeader) -> bool:
    """Whether the responder withholds the leader because this replica is a voter from before a recovery.

    (Or it has no epoch at all.) Then the voters that it names have to be asked for the leader.
    """
    return leader.leader_id == NO_LEADER and leader.leader_epoch == 0


def is_superseded(replica: ReplicaState, request: FetchRequest) -> bool:
    """Whether the sender has seen a recovery that this replica has not."""
    same_cluster = request.cluster_id in (None, replica.cluster_id)
    return request.recovered_epoch > replica.recovered_epoch and same_cluster
