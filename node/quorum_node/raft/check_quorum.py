"""A leader that nobody fetches from any more (zombie leader).

Owns when that is noticed. Must not know elections.
Source: KIP-595, "Replication Progress Timeout for Zombie Leader" (K595-16): without fetches from a
majority of voters for the fetch timeout the leader stops serving and looks for the current quorum;
it becomes follower or observer of the newer epoch when it finds one. As shipped, it resigns at once
instead of leading on until then: who waits for it is answered sooner.

A voter that stopped fetching while a majority goes on is told again who leads, as shipped. Its answer may tell
of a newer epoch, of which a leader that has a majority hears from nobody else: so it is after a recovery.
"""

from quorum_node.raft.leadership import Leader
from quorum_node.raft.quorum import majority_value
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.transitions import become_resigned
from quorum_node.records.identity import ReplicaKey


def check_quorum(replica: ReplicaState, leader: Leader) -> None:
    """Timer: resign, or compute when to look again (nothing is done per fetch)."""
    if replica.now_ms < leader.check_quorum_deadline_ms:
        return

    def last_heard_ms(key: ReplicaKey) -> float:
        if key == replica.key:
            return replica.now_ms
        progress = leader.progress.get(key)
        if progress is None or progress.last_fetch_ms is None:
            return leader.elected_ms
        return progress.last_fetch_ms

    heard_ms = majority_value(replica.voters.latest.voters, last_heard_ms)
    deadline_ms = heard_ms + replica.config.fetch_timeout_ms
    if deadline_ms <= replica.now_ms:
        become_resigned(replica)
        return
    leader.check_quorum_deadline_ms = deadline_ms
    silent_since_ms = replica.now_ms - replica.config.fetch_timeout_ms
    lost = {key for key in replica.other_voters() if last_heard_ms(key) <= silent_since_ms}
    if not lost <= leader.unendorsed:
        leader.unendorsed |= lost
        leader.begin_failures = 0
        leader.begin_deadline_ms = replica.now_ms
