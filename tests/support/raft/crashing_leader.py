"""Cores whose leader crashes at a chosen output within a step.

Owns counting a leader's outputs and the time of its crash. Must not know the tests.
"""

from collections import deque

from quorum_node.raft.events import Event, FailureReason, RequestFailed
from quorum_node.raft.leadership import Leader
from quorum_node.raft.outputs import Output
from support.raft.cores import Cores, Node

Moment = tuple[object, ...]


class CrashingLeader(Cores):
    """From `arm` on the outputs of leaders are counted; the leader crashes before output number `crash_at`.

    `moments` describes each counted output by what the leader was busy with: two outputs of one
    description are the same step for anyone who looks from outside.
    """

    def __init__(self, crash_at: int = 0) -> None:
        super().__init__()
        self.moments: list[Moment] = []
        self.dead: Node | None = None
        self._dies_at = crash_at
        self._armed = False

    def arm(self) -> None:
        """Start counting."""
        self._armed = True

    def disarm(self) -> None:
        """Stop: no more crashes."""
        self._armed = False

    def _step(self, node: Node, event: Event) -> None:
        role = node.replica.role
        if not self._armed or not isinstance(role, Leader):
            super()._step(node, event)
            return
        for output in node.replica.step(event, self.now_ms):
            self.moments.append(_moment(node, role, output))
            if len(self.moments) == self._dies_at:
                self._die(node)
                return
            self._execute(node, output)

    def _die(self, node: Node) -> None:
        """kill -9, as `crash`, within a step: the remaining outputs are dropped."""
        self.disarm()
        self.dead = node
        node.up = False
        del node.batches[node.durable_batches :]
        node.flush_wanted = False
        self.events = deque(each for each in self.events if each[0] != node.name)
        for name, correlation in node.waiting.values():
            self.events.append((name, RequestFailed(correlation, FailureReason.CLOSED)))
        node.waiting = {}


def _moment(node: Node, leader: Leader, output: Output) -> Moment:
    latest = node.replica.voters.latest
    change = leader.change
    return (
        latest.voters.ordered_keys,
        latest.record.target_voters,
        node.replica.voters.latest_is_committed,
        None if change is None else (change.kind, change.phase),
        leader.handover is not None,
        node.replica.epoch,
        type(output),
    )
