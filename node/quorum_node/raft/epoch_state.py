"""The epoch of a replica, its vote and leader in it, and what of that is saved.

Owns these fields: no other module assigns them. Must not know when an epoch begins, who gets the vote or who leads.
Source: KIP-595, "quorum-state"; in an epoch a replica votes once and follows one leader.
"""

from quorum_node.raft.messages import NO_LEADER
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.identity import ReplicaKey

NEVER_MS = float("inf")
_SAVE_LEADER_AFTER_MS = 100.0
"""A new leader's first commits come first: a write of quorum-state is three syncs, and holds up the loop."""


class EpochState:
    """What election safety rests on. Nothing here is durable before `PersistQuorumState` is carried out."""

    def __init__(self, state: QuorumState, last_epoch: int) -> None:
        self.epoch = max(state.leader_epoch, last_epoch)
        fresh = self.epoch == state.leader_epoch
        self.voted = state.voted if fresh else None
        self.remembered_leader_id = state.leader_id if fresh else NO_LEADER
        self.saved_leader = (state.leader_epoch, state.leader_id)
        """Epoch and leader id that quorum-state has."""
        self.leader_is_unsaved = False
        self.save_leader_at_ms = NEVER_MS
        """When the leader is to be saved; NEVER_MS also while no record of its epoch is committed."""

    def epoch_begins(self, epoch: int) -> None:
        """No vote and no leader in it yet."""
        self.epoch = epoch
        self.voted = None
        self.remembered_leader_id = NO_LEADER

    def votes_for(self, candidate: ReplicaKey) -> None:
        """In this epoch, once."""
        self.voted = candidate

    def epoch_has_leader(self, leader_id: int) -> None:
        """Remembered also when it is given up."""
        self.remembered_leader_id = leader_id

    def leader_is_not_saved(self) -> None:
        """It may be written later (`save_leader`)."""
        self.leader_is_unsaved = True

    def leader_was_saved(self, leader_id: int) -> None:
        """quorum-state gets it with this epoch."""
        self.saved_leader, self.leader_is_unsaved = (self.epoch, leader_id), False
        self.save_leader_at_ms = NEVER_MS

    def leader_is_saved_soon(self, now_ms: float) -> None:
        """A record of its epoch is committed."""
        self.leader_is_unsaved, self.save_leader_at_ms = False, now_ms + _SAVE_LEADER_AFTER_MS

    def leader_needs_no_saving(self) -> None:
        """It is there, or there is none."""
        self.leader_is_unsaved, self.save_leader_at_ms = False, NEVER_MS
