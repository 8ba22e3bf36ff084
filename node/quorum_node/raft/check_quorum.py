"""Check quorum: detects a leader without contact to a majority that its commits need (zombie leader).

Owns when that is detected. Must not know elections.
Source: KIP-595, "Replication Progress Timeout for Zombie Leader" (K595-16): without fetches from a
majority of voters for the fetch timeout the leader stops serving and looks for the current quorum.
It becomes follower or observer of the newer epoch when it finds one. As in shipped Kafka, it
resigns at once instead of staying leader until then, so waiting requests are answered sooner.

A voter that stopped fetching while a majority continues receives BeginQuorumEpoch again, as in
shipped Kafka. Its response may contain a newer epoch, which the leader can't learn from its other
voters. This happens after a recovery. So does a voter that followed this leader and looks for one
again.
"""

from quorum_node.raft.leadership import Leader
from quorum_node.raft.quorum import majority_value
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.transitions import become_resigned
from quorum_node.records.identity import ReplicaKey


def check_quorum(replica: ReplicaState, leader: Leader) -> None:
    """Timer: resign, or compute the next check. Nothing is done per fetch."""
    if replica.now_ms < leader.check_quorum_deadline_ms:
        return

    def last_contact_ms(key: ReplicaKey) -> float:
        return replica.now_ms if key == replica.key else leader.last_contact_ms(key)

    heard_ms = min(
        majority_value(voters, last_contact_ms)
        for voters in replica.voters.deciding(replica.epoch)
        if len(voters)
    )
    deadline_ms = heard_ms + replica.config.fetch_timeout_ms
    if deadline_ms <= replica.now_ms:
        become_resigned(replica)
        return
    leader.check_quorum_deadline_ms = deadline_ms
    silent_since_ms = replica.now_ms - replica.config.fetch_timeout_ms
    lost = {
        key for key in replica.other_counted_voters() if last_contact_ms(key) <= silent_since_ms
    }
    if not lost <= leader.unendorsed:
        leader.await_endorsement(lost, replica.now_ms)


def note_search(replica: ReplicaState, leader: Leader, key: ReplicaKey) -> None:
    """A voter that followed this leader looks for one again: it may have been told of a false leader.

    It is told of this one again. The first fetch after a restart looks the same, so its next fetch is
    awaited before.
    """
    if key not in leader.unendorsed and key in replica.voters.counted():
        due_ms = replica.now_ms + replica.config.retry_backoff_max_ms
        leader.await_endorsement((key,), due_ms)
