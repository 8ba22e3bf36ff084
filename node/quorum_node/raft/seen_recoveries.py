"""The quorum from before a recovery, told from the one that came out of it.

Owns the comparison. After `--recover` a majority of the old voters may still run where the survivor can't be reached, and
lead themselves under the same cluster id. The voters record says in which epoch the last recovery was
(`VotersRecord.recovered_epoch`), and so every log does that goes on from it. Fetches of those who know of one carry
it, and the answer to such a fetch carries the responder's. Then

* who knows of a recovery follows nobody that does not, whatever its epoch; in most cases the epoch alone says so,
  being 65 536 lower, but old voters may have heard of the new epochs from somebody;
* a leader of the old quorum serves nobody that knows of a recovery, does not learn epochs from it, and reports it. It
  does not stop: without authentication anybody could say so.

Must not know how a recovery is made (`server/recovering.py`). Stock replicas know nothing of this, and go by the epoch.
"""

from dataclasses import replace

from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import NO_LEADER, CurrentLeader, FetchRequest
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.records.identity import ReplicaKey

_KEPT_FROM = CurrentLeader(NO_LEADER, 0)


def is_of_older_quorum(replica: ReplicaState, leader: CurrentLeader) -> bool:
    """Whether the responder has not seen the last recovery that this replica knows of."""
    return 0 <= leader.recovered_epoch < replica.recovered_epoch


def told_leader(replica: ReplicaState, request: FetchRequest) -> CurrentLeader:
    """Who leads, with what this replica knows of recoveries for a sender that knows of one."""
    leader = leader_told_to(replica, request.replica)
    if not request.recovered_epoch:
        return leader
    return replace(leader, recovered_epoch=replica.recovered_epoch)


def leader_told_to(replica: ReplicaState, key: ReplicaKey) -> CurrentLeader:
    """Who leads; but a voter from before a recovery hears of the new epochs from the new leader alone.

    If it heard of them from somebody else while the leader is out of its reach, it would campaign above them with the
    other old voters. The recovery made tombstones of their keys.
    """
    tombstones = replica.voters.latest.record.tombstones if replica.recovered_epoch else ()
    if key in tombstones and not isinstance(replica.role, Leader):
        return _KEPT_FROM
    return replica.current_leader()


def is_kept_from(leader: CurrentLeader) -> bool:
    """Whether the responder tells nothing because this replica is a voter from before a recovery.

    (Or it knows of no epoch at all.) The voters that it names are those to ask for the leader.
    """
    return leader.leader_id == NO_LEADER and leader.leader_epoch == 0


def is_superseded(replica: ReplicaState, request: FetchRequest) -> bool:
    """Whether the sender has seen a recovery that this replica has not."""
    same_cluster = request.cluster_id in (None, replica.cluster_id)
    return request.recovered_epoch > replica.recovered_epoch and same_cluster
