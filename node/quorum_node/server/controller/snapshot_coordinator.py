"""Snapshots in turn (KIP-631, "Snapshot Implementation"): what this node reports, and when it may write one.

Owns the heartbeats to the active controller and, on the active controller, the order that its own snapshot waits for. Must not know how a
snapshot is written (`snapshotter.py`), nor the order itself (`controller/snapshot_turns.py`).

A heartbeat is sent every two seconds (`quorum.snapshot.heartbeat.interval.ms`), and at once when the leader changes, a snapshot becomes
due here, or one has ended. A node does not wait for a missing coordinator: under a leader that does not serve ControllerHeartbeat (stock
Kafka), and when no active controller has answered for five periods, it follows its own policy alone.
"""

import asyncio
from dataclasses import replace
from typing import Protocol

from quorum_node.configuration.snapshots import SnapshotPolicy
from quorum_node.controller.snapshot_turns import (
    SILENT_PERIODS,
    SnapshotProgress,
    SnapshotTurns,
    Turn,
    is_strained,
)
from quorum_node.image.committed import CommittedImage
from quorum_node.protocol.apis import CONTROLLER_HEARTBEAT
from quorum_node.protocol.controller_heartbeat import (
    ControllerHeartbeatRequest,
    ControllerHeartbeatResponse,
)
from quorum_node.raft.events import FailureReason
from quorum_node.raft.messages import CurrentLeader
from quorum_node.records.identity import ReplicaKey
from quorum_node.schema.schema import Message
from quorum_node.server.controller.active_controller import ActiveController
from quorum_node.server.controller.events import ControllerEvents
from quorum_node.server.controller.nondeterminism import Nondeterminism
from quorum_node.server.controller.registrar import Ask
from quorum_node.server.snapshots.policy import Progress, is_due


class CoordinatedReplica(Protocol):
    """The replica of this process."""

    @property
    def key(self) -> ReplicaKey: ...

    @property
    def committed(self) -> CommittedImage:
        """The image of the committed records that are applied."""

    def leader(self) -> CurrentLeader:
        """The leader that this replica knows, possibly itself."""

    def leading_epoch(self) -> int | None:
        """The epoch that this replica leads; None also while it hands leadership over."""

    def is_leader(self) -> bool:
        """Whether it leads, or is handing over. The leader's id is not sufficient: another replica may have the same id."""

    def has_stopped(self) -> bool:
        """Whether this replica has halted."""

    def voters_caught_up(self) -> tuple[int, int]:
        """Number of voters, and how many of them are caught up; valid on the leader only."""

    def successors(self) -> list[ReplicaKey]:
        """Caught-up voters that may lead, the best one first; valid on the leader only."""

    def hand_over(self, successor: ReplicaKey) -> None:
        """Resign in favour of another voter."""


class Writer(Protocol):
    """Writes the snapshots of this node."""

    def progress(self) -> SnapshotProgress:
        """Progress since the newest snapshot."""

    def begin_turn(self) -> None:
        """Write a snapshot now."""


class SnapshotCoordinator:
    """One per process. All methods run on the loop's thread."""

    def __init__(
        self,
        replica: CoordinatedReplica,
        writer: Writer,
        controller: ActiveController,
        ask: Ask,
        nondeterminism: Nondeterminism,
        events: ControllerEvents,
        policy: SnapshotPolicy,
    ) -> None:
        self._replica = replica
        self._writer = writer
        self._controller = controller
        self._ask = ask
        self._nondeterminism = nondeterminism
        self._events = events
        self._policy = policy
        self._loop = asyncio.get_running_loop()
        self._heard_ms = nondeterminism.now_ms()
        self._timer: asyncio.TimerHandle | None = None
        self._asked_epoch: int | None = None
        self._again = False
        self._urged = False
        self._epoch = -1
        self._unsupported_epoch = -1
        self._handed_over_at = -1
        self._beat()

    def close(self) -> None:
        """Stop the heartbeats."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look(self) -> None:
        """The leader may have changed."""
        leader = self._replica.leader()
        if leader.leader_epoch != self._epoch and leader.endpoint is not None:
            self._epoch, self._urged = leader.leader_epoch, False
            self._send()

    def ended(self) -> None:
        """A snapshot of this node has been written, or has failed."""
        self._urged = False
        self._send()

    def may_begin(self) -> bool:
        """Whether a snapshot that is due here may begin now. If not, this is called again, or `begin_turn` is called later."""
        if self._controller.is_active:
            self._heard_ms = self._nondeterminism.now_ms()
            # None: the replica is handing over, and the controller is not informed of that yet.
            return self._replica.leading_epoch() is not None and self._own_turn()
        if self._replica.is_leader():
            return False  # its own controller is not active yet, and will decide
        if not self._urged:
            self._urged = True
            self._send()
        return not self._is_coordinated()

    def _is_coordinated(self) -> bool:
        if self._unsupported_epoch == self._replica.leader().leader_epoch:
            return False
        return (
            self._nondeterminism.now_ms() - self._heard_ms
            < SILENT_PERIODS * self._policy.heartbeat_ms
        )

    # -- as a standby

    def _beat(self) -> None:
        self._timer = self._loop.call_later(self._policy.heartbeat_ms / 1000, self._beat)
        self._send()

    def _send(self) -> None:
        leader = self._replica.leader()
        if leader.endpoint is None or self._replica.is_leader():
            return
        if self._replica.has_stopped() or self._unsupported_epoch == leader.leader_epoch:
            return
        if self._asked_epoch is not None:
            self._again = True
            return
        self._asked_epoch = leader.leader_epoch
        progress = self._writer.progress()
        request = ControllerHeartbeatRequest(
            controller_id=self._replica.key.id,
            last_snapshot_offset=progress.offset,
            record_bytes=progress.record_bytes,
            age_ms=int(progress.age_ms),
            writing=progress.writing,
            directory_id=self._replica.key.uuid,
        )
        self._ask(leader.endpoint, CONTROLLER_HEARTBEAT, request, self._answered)

    def _answered(self, outcome: Message | FailureReason) -> None:
        asked_epoch, self._asked_epoch = self._asked_epoch, None
        if outcome is FailureReason.UNSUPPORTED and asked_epoch is not None:
            self._unsupported_epoch = asked_epoch
        if isinstance(outcome, ControllerHeartbeatResponse) and outcome.error_code == 0:
            self._heard_ms = self._nondeterminism.now_ms()
            if outcome.start_snapshot:
                self._writer.begin_turn()
        if self._again:
            self._again = False
            self._send()

    # -- as the active controller

    def turns(self, now_ms: float) -> SnapshotTurns:
        """The order of snapshots since this node became the active controller."""
        return SnapshotTurns(self._is_due, self._writer.progress, now_ms, self._policy.heartbeat_ms)

    def _is_due(self, progress: SnapshotProgress) -> bool:
        policy = self._policy
        if is_strained(*self._replica.voters_caught_up()):
            policy = replace(
                policy,
                max_record_bytes=policy.max_record_bytes * policy.lagging_factor,
                max_interval_ms=policy.max_interval_ms * policy.lagging_factor,
            )
        since = Progress(
            record_bytes=progress.record_bytes,
            since_last_ms=progress.age_ms,
            new_records=progress.offset < self._replica.committed.end_offset,
            is_only_copy=False,
        )
        return is_due(policy, since)

    def _own_turn(self) -> bool:
        view = self._controller.view()
        assert view is not None
        turns = view.snapshot_turns
        assert turns is not None
        offset = self._writer.progress().offset
        successor = next(
            (each for each in self._replica.successors() if turns.is_heard(each, view.now_ms)),
            None,
        )
        # This node leads again with the same snapshot: no other voter could take over.
        wanted = self._policy.handover and self._handed_over_at != offset
        turn = turns.own_turn(
            view.now_ms,
            single_voter=len(view.voters) == 1,
            can_hand_over=wanted and successor is not None,
        )
        if turn is Turn.HAND_OVER and successor is not None:
            self._handed_over_at = offset
            self._events.hands_over(successor)
            self._replica.hand_over(successor)
        return turn is Turn.BEGIN
