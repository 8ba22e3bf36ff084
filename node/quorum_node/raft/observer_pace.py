"""Rate limit for new data to observers: voters are answered at once, observers in turns.

Owns the turns. A commit waits for voters only, but every response to an observer and its next fetch
use the same processor. So observers share a rate: a few are answered at once. Each further one
waits for a turn, and then gets all new records in one response. Must not know the content of
responses. Not needed for safety.
"""

from quorum_node.raft.leadership import Leader, ParkedFetch
from quorum_node.raft.messages import FetchRequest
from quorum_node.raft.replica_state import ReplicaState


def is_urgent(replica: ReplicaState, leader: Leader, request: FetchRequest) -> bool:
    """Whether commits, reads or a voter change may depend on the sender."""
    key, voters = request.replica, replica.voters
    if key in voters.latest.voters or key in voters.committed.voters:
        return True
    if replica.ids_only and voters.latest.voters.newest(key.id) is not None:
        return True
    targets = voters.latest.record.target_voters or ()
    change = leader.change
    return (change is not None and change.voter == key) or any(key.id == t.id for t in targets)


def may_answer_now(replica: ReplicaState, leader: Leader) -> bool:
    """Take a turn that is free now, if there is one."""
    config = replica.config
    interval_ms = config.observer_interval_ms
    turn_ms = max(leader.observer_turn_ms, replica.now_ms - config.observer_burst * interval_ms)
    if turn_ms + interval_ms > replica.now_ms:
        return False
    leader.observer_turn_ms = turn_ms + interval_ms
    return True


def wait_for_turn(replica: ReplicaState, leader: Leader, fetch: ParkedFetch) -> None:
    """Answer a parked fetch in the next turn that is free."""
    turn_ms = max(leader.observer_turn_ms, replica.now_ms) + replica.config.observer_interval_ms
    leader.observer_turn_ms = turn_ms
    fetch.has_turn = True
    fetch.deadline_ms = min(fetch.expires_ms, turn_ms)
