"""The epoch of a replica, its vote and its leader in that epoch, and which of them are saved.

Owns these fields: no other module assigns them. Must not know when an epoch begins, which candidate
gets the vote, or which replica leads.
Source: KIP-595, "quorum-state": in an epoch a replica votes once and follows one leader.

Leaders of the present epoch, each an id or NO_LEADER (the properties are in `replica_state.py`):

| name | which leader |
|---|---|
| `leader_id` | the one that is followed now, or this replica |
| `known_leader_id` | that one; while none is followed, the remembered one |
| `bound_leader_id` | the one that excludes all others: it has answered or announced itself here, got the vote or wrote to the log. A leader that only others have named excludes none |
| `remembered_leader_id` | the bound one, kept after it was given up. It is the one in quorum-state |
| `last_hearsay_leader_id` | the last one that was followed because others named it, or that was doubted. It excludes none |
"""

from quorum_node.raft.messages import NO_LEADER
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.identity import ReplicaKey

NEVER_MS = float("inf")
_SAVE_LEADER_AFTER_MS = 100.0
"""A write of quorum-state is three syncs and blocks the loop, so it comes after a new leader's
first commits.
"""


class EpochState:
    """The state that election safety depends on.

    Nothing is durable before PersistQuorumState was executed.
    """

    def __init__(self, state: QuorumState, last_epoch: int) -> None:
        self.epoch = max(state.leader_epoch, last_epoch)
        fresh = self.epoch == state.leader_epoch
        self.voted = state.voted if fresh else None
        self.remembered_leader_id = state.leader_id if fresh else NO_LEADER
        self.last_hearsay_leader_id = NO_LEADER
        self.distant_candidates: set[int] = set()
        """Ids of known voters that asked for this replica's vote in an epoch too far ahead."""
        self.saved_leader = (state.leader_epoch, state.leader_id)
        """Epoch and leader id in the quorum-state file."""
        self.leader_is_unsaved = False
        self.save_leader_at_ms = NEVER_MS
        """When the leader is saved. NEVER_MS as long as no record of its epoch is committed."""

    def epoch_begins(self, epoch: int) -> None:
        """Enter a new epoch, without vote and leader."""
        self.epoch = epoch
        self.voted = None
        self.remembered_leader_id = NO_LEADER
        self.last_hearsay_leader_id = NO_LEADER
        self.distant_candidates = set()

    def set_vote(self, candidate: ReplicaKey) -> None:
        """Vote for this key; once per epoch."""
        self.voted = candidate

    def set_epoch_leader(self, leader_id: int) -> None:
        """Set the leader of the epoch. It is kept when the follower gives it up."""
        self.remembered_leader_id = leader_id

    def set_hearsay_leader(self, leader_id: int) -> None:
        """Others named this leader. It excludes no other one, and is not saved."""
        self.remembered_leader_id, self.last_hearsay_leader_id = NO_LEADER, leader_id

    def doubt_epoch_leader(self) -> None:
        """The leader of the epoch does not respond: it excludes no other one any more."""
        if self.remembered_leader_id != NO_LEADER:
            self.set_hearsay_leader(self.remembered_leader_id)

    def mark_leader_unsaved(self) -> None:
        """The leader has to be saved later (`save_leader`)."""
        self.leader_is_unsaved = True

    def mark_leader_saved(self, leader_id: int) -> None:
        """The leader is saved together with this epoch."""
        self.saved_leader, self.leader_is_unsaved = (self.epoch, leader_id), False
        self.save_leader_at_ms = NEVER_MS

    def schedule_leader_save(self, now_ms: float) -> None:
        """A record of the leader's epoch is committed: save the leader soon."""
        self.leader_is_unsaved, self.save_leader_at_ms = False, now_ms + _SAVE_LEADER_AFTER_MS

    def cancel_leader_save(self) -> None:
        """The leader is saved already, or there is none."""
        self.leader_is_unsaved, self.save_leader_at_ms = False, NEVER_MS
