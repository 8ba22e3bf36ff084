"""The quorum from before a recovery, told from the one that came out of it.

Owns the comparison. After `--recover` a majority of the old voters may still run where the survivor can't be reached, and
lead themselves under the same cluster id. The voters record says in which epoch the last recovery was
(`VotersRecord.recovered_epoch`), and so every log does that goes on from it. Fetches of those who know of one carry
it, and the answer to such a fetch carries the responder's. So do Votes and BeginQuorumEpochs, which also tell that
their sender knows of none. Then

* who knows of a recovery follows nobody that does not, whatever its epoch; in most cases the epoch alone says so,
  being 65 536 lower, but old voters may have heard of the new epochs from somebody;
* who knows of a recovery votes for no candidate that does not, and takes no epoch from it;
* a leader of the old quorum serves nobody that knows of a recovery, does not learn epochs from it, and reports it. It
  does not stop: without authentication anybody could say so.

Must not know how a recovery is made (`server/recovering.py`). Stock replicas know nothing of this, and go by the epoch.
"""

from dataclasses import replace

from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import NO_LEADER, CurrentLeader, FetchRequest, VoteRequest
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.records.identity import ReplicaKey

_KEPT_FROM = CurrentLeader(NO_LEADER, 0)


def is_of_older_quorum(replica: ReplicaState, leader: CurrentLeader) -> bool:
    """Whether the responder has not seen the last recovery that this replica knows of."""
    return lacks_recovery(replica, leader.recovered_epoch)


def lacks_recovery(replica: ReplicaState, told: int) -> bool:
    """Whether who says `told` has not seen the last recovery that this replica knows of; -1 says nothing."""
    return 0 <= told < replica.recovered_epoch


def is_older_candidate(replica: ReplicaState, request: VoteRequest) -> bool:
    """Whether a candidate is of the quorum from before the last recovery that this replica knows of.

    The comparison of logs need not tell: who has led in the older quorum above the recovered epoch has the later
    epoch in its log. Of a candidate that says nothing of recoveries the tombstones tell, unless it is a
    voter that is only being removed: it may be the only one that can win.
    """
    if request.recovered_epoch >= 0:
        return lacks_recovery(replica, request.recovered_epoch)
    voters = replica.voters
    return _has_tombstone(replica, request.candidate) and (
        request.candidate not in voters.committed.voters
    )


def told_leader(
    replica: ReplicaState, key: ReplicaKey | None, recovered_epoch: int
) -> CurrentLeader:
    """Who leads, for a sender with this key and this knowledge of recoveries (-1: not told).

    A sender that knows of one is told what this replica knows of them. A voter from before a recovery hears of
    the new epochs from the new leader alone: if it heard of them from somebody else while the leader is
    out of its reach, it would campaign above them with the other old voters. The recovery made
    tombstones of their keys.
    """
    leader = replica.current_leader()
    is_older = _has_tombstone(replica, key) or lacks_recovery(replica, recovered_epoch)
    if is_older and not isinstance(replica.role, Leader):
        leader = _KEPT_FROM
    if recovered_epoch <= 0:
        return leader
    return replace(leader, recovered_epoch=replica.recovered_epoch)


def _has_tombstone(replica: ReplicaState, key: ReplicaKey | None) -> bool:
    return bool(replica.recovered_epoch) and key in replica.voters.latest.record.tombstones


def is_kept_from(leader: CurrentLeader) -> bool:
    """Whether the responder tells nothing because this replica is a voter from before a recovery.

    (Or it knows of no epoch at all.) The voters that it names are those to ask for the leader.
    """
    return leader.leader_id == NO_LEADER and leader.leader_epoch == 0


def is_superseded(replica: ReplicaState, request: FetchRequest) -> bool:
    """Whether the sender has seen a recovery that this replica has not."""
    same_cluster = request.cluster_id in (None, replica.cluster_id)
    return request.recovered_epoch > replica.recovered_epoch and same_cluster
