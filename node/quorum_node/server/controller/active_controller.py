"""The active controller: commands decide on a pending state; answers are sent after the commit (K631-02, K631-03).

Owns `pending`, the committed image plus everything that is accepted and not committed yet; when this node starts and stops being the
active controller; and the callbacks that wait for a commit. Must not know any command: commands are passed in, and see a `View`. Only
replay changes the image, as everywhere.

1. A leader that has committed a record of its own epoch, and has applied it, is the active controller. It starts with the image that it
   kept as a standby: nothing is loaded (KIP-631: "hot standbys").
2. A decision's records are replayed into `pending` and submitted. Records that others append (the admin API) are replayed into it as
   well. When these records are committed, replay reuses the image that was made here (`speculative_images.py`).
3. The answer is sent when the records are committed. An answer without records waits for everything that was accepted before it,
   because it may describe that state.
4. When an append fails, `pending` is invalid: it is dropped, and every waiting request gets an error. If this node still leads, it
   starts again at 1 once no append is in flight.

Source: KIP-631, "Persistence and Visibility".
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from quorum_node.controller.decision import Decision
from quorum_node.controller.features import unknown_levels
from quorum_node.controller.leases import BrokerLeases
from quorum_node.controller.snapshot_turns import SnapshotTurns
from quorum_node.controller.view import (
    NOBODY,
    UNRESTRICTED,
    Caller,
    Replicas,
    Rights,
    Settings,
    View,
)
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.committed import CommittedImage
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.metadata import (
    decode_metadata,
)
from quorum_node.server.controller.events import ControllerEvents
from quorum_node.server.controller.nondeterminism import Nondeterminism
from quorum_node.server.controller.planned import Planned, plan
from quorum_node.server.controller.speculative_images import (
    SpeculativeImages,
    Step,
    are_outside_transactions,
)
from quorum_node.server.partition.port import (
    Append,
    AppendOutcome,
    Appends,
    Committed,
    TooLarge,
)

Settled = Callable[[RaftError | TooLarge | None], None]
"""Called once: with None when the decision is committed, else with the reason why it is not."""


class ControlledReplica(Protocol):
    """The replica of the partition that is controlled."""

    @property
    def appends(self) -> Appends: ...

    @property
    def committed(self) -> CommittedImage:
        """The image of the committed records that are applied."""

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    def leading_epoch(self) -> int | None:
        """The epoch that this replica leads and has committed a record of; None if it may not write."""

    def when_applied(self, offset: int, ready: Callable[[], None]) -> None:
        """Call `ready` once everything below `offset` is in the image, possibly before this returns."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the next turn of the loop."""

    def identity(self) -> tuple[str, int, tuple[ReplicaKey, ...]]:
        """Cluster id, own id, voters."""

    def replicas(self) -> Replicas:
        """See `View`."""


class ActivePort(Protocol):
    """The parts that act for the active controller, and are informed of its changes."""

    def activated(self) -> None:
        """This node is the active controller from now on."""

    def pending_changed(self) -> None:
        """`pending` has changed."""

    def elected_unclean(self, partitions: int) -> None:
        """The election of this number of leaders from outside of the ISR is committed."""

    def snapshot_turns(self, now_ms: float) -> SnapshotTurns | None:
        """The order of snapshots while this node is the active controller; None if snapshots are not coordinated."""


@dataclass(slots=True, eq=False)
class _InFlightAppend:
    """An append in flight, and the callbacks that wait for it. `step`: its effect on `pending`, if replay is certain to have the same."""

    step: Step | None = None
    waiting: list[Settled] = field(default_factory=list)


class ActiveController:
    """One per replica of the metadata partition; inactive on all but the leader."""

    def __init__(
        self,
        replica: ControlledReplica,
        nondeterminism: Nondeterminism,
        events: ControllerEvents,
        port: ActivePort,
        *,
        session_timeout_ms: float,
        settings: Settings,
    ) -> None:
        self.settings = settings
        self.leases = BrokerLeases(session_timeout_ms)
        self.speculative = SpeculativeImages()
        """The images that replay can reuse."""
        self.tenure = 0
        """How often this node became the active controller. Between two tenures `pending` may have lost records."""
        self._replica = replica
        self._nondeterminism = nondeterminism
        self._events = events
        self._port = port
        self._pending: ClusterImage | None = None
        self._snapshot_turns: SnapshotTurns | None = None
        self._epoch = -1
        self._held_back: int | None = -1
        self._in_flight: dict[Append, _InFlightAppend] = {}
        self._checking = False
        self._settling = False
        self._commits: deque[tuple[float, int]] = deque()
        self._stale_offset = 0

    @property
    def pending(self) -> ClusterImage | None:
        """The state that the next command decides on; None if this node is not the active controller."""
        return self._pending

    @property
    def is_active(self) -> bool:
        """Whether this node accepts commands."""
        return self._pending is not None

    @property
    def is_held_back(self) -> bool:
        """Whether this node leads, but can't be the active controller because of a finalized feature level."""
        return self._pending is None and self._held_back == self._replica.leading_epoch()

    @property
    def epoch(self) -> int:
        """The epoch in which this node is, or last was, the active controller."""
        return self._epoch

    @property
    def in_flight(self) -> int:
        """Number of appends in flight."""
        return len(self._in_flight)

    # -- becoming active and inactive

    def check(self) -> None:
        """Check again: the role, the epoch or the high watermark may have changed."""
        epoch = self._replica.leading_epoch()
        if self._pending is not None:
            if epoch != self._epoch:
                self._drop("leadership is over")
            return
        if epoch is not None and not self._checking:
            self._checking = True
            self._replica.call_soon(self._claim)

    def _claim(self) -> None:
        """Become active, or wait until everything that is committed is applied.

        Called between two events of the core, so that an append that is in flight is not in the image yet.
        """
        self._checking = False
        epoch = self._replica.leading_epoch()
        if self._pending is not None or epoch is None:
            return
        high_watermark = self._replica.high_watermark
        if self._replica.committed.end_offset < high_watermark:
            self._checking = True
            self._replica.when_applied(high_watermark, self._claim_later)
            return
        if self._in_flight and epoch == self._epoch:
            return  # it dropped its state in this epoch: `settled` starts again when no append is in flight
        levels = tuple(unknown_levels(self._replica.committed.image))
        if levels:
            self._hold_back(epoch, levels)
            return
        self._epoch = epoch
        self.tenure += 1
        self._snapshot_turns = self._port.snapshot_turns(self._nondeterminism.now_ms())
        self._commits.clear()
        self._stale_offset = 0
        pending = self._replica.committed.image
        for append in self._in_flight:
            pending = pending.replay_all(map(decode_metadata, append.values))
        self._pending = pending
        self._renew_all(pending)
        self._events.activated(epoch)
        self._port.activated()

    def _hold_back(self, epoch: int, levels: tuple[str, ...]) -> None:
        """Logged once per epoch. The levels are checked again with the next commit."""
        if self._held_back != epoch:
            self._held_back = epoch
            self._events.held_back(levels)

    def _claim_later(self) -> None:
        self._replica.call_soon(self._claim)

    def _renew_all(self, image: ClusterImage) -> None:
        """Give every unfenced broker a new lease: before, no broker could send a heartbeat to this controller."""
        now_ms = self._nondeterminism.now_ms()
        self.leases = BrokerLeases(self.leases.session_timeout_ms)
        for broker in image.brokers.by_id.values():
            if not broker.fenced:
                self.leases.renew(broker.broker_id, broker.broker_epoch, now_ms, -1)

    def _drop(self, why: str) -> None:
        self.speculative.clear()
        if self._pending is not None:
            self._pending = None
            self._events.deactivated(why)

    def broker_lags(self) -> dict[int, int]:
        """Number of committed records that each broker has not applied, by broker id. Brokers that have not reported it are left out. Empty
        on a standby.
        """
        if self._pending is None:
            return {}
        high_watermark, found = self._replica.high_watermark, {}
        for broker in self._pending.brokers.by_id.values():
            lease = self.leases.get(broker.broker_id, broker.broker_epoch)
            if lease is not None and lease.metadata_offset >= 0:
                found[broker.broker_id] = max(0, high_watermark - lease.metadata_offset - 1)
        return found

    # -- deciding

    def view(self, caller: Caller = NOBODY, rights: Rights = UNRESTRICTED) -> View | None:
        """The view that a command decides on; None on every node but the active controller."""
        if self._pending is None:
            return None
        now_ms = self._nondeterminism.now_ms()
        replica = self._replica
        cluster_id, node_id, voters = replica.identity()
        return View(
            image=self._pending,
            leases=self.leases,
            now_ms=now_ms,
            fresh_uuid=self._nondeterminism.fresh_uuid,
            random=self._nondeterminism.random,
            leader_epoch=self._epoch,
            next_offset=replica.log_end_offset + replica.appends.queued_records,
            cluster_id=cluster_id,
            node_id=node_id,
            voters=voters,
            stale_offset=self._stale_by(now_ms),
            settings=self.settings,
            caller=caller,
            rights=rights,
            replicas=replica.replicas,
            snapshot_turns=self._snapshot_turns,
        )

    def carry_out(self, decision: Decision, settled: Settled) -> None:
        """Append the records of a decision. It must have been made on the latest view, with no change since."""
        assert self._pending is not None
        if decision.refused:
            self._events.refused(decision.refused)
        self._carry_out(plan(decision, self._pending), settled)

    def carry_out_planned(self, planned: Planned, tenure: int, settled: Settled) -> bool:
        """The same for a decision that a thread has made and planned meanwhile, in this tenure. False if it has to be made again.

        A decision without records only answers: it is valid even if others have changed the state since, as an answer on a linearizable read
        of the moment when the request arrived.
        """
        if self._pending is None or tenure != self.tenure:
            return False
        if planned.decision.records and planned.before is not self._pending:
            return False
        self._carry_out(planned, settled)
        return True

    def _carry_out(self, planned: Planned, settled: Settled) -> None:
        if planned.too_large is not None:
            settled(planned.too_large)
            return
        if not planned.chunks:
            self.after_all(settled)
            return
        self._pending = planned.after
        for chunk in planned.chunks:
            append = self._replica.appends.submit(chunk, _no_callback)
            assert append is not None, "a chunk fits into a batch"
            self._in_flight[append] = _InFlightAppend(planned.step)
        unclean = planned.unclean
        if unclean:
            self.after_all(
                lambda error: None if error is not None else self._port.elected_unclean(unclean)
            )
        self.after_all(settled)
        self._port.pending_changed()

    def after_all(self, settled: Settled) -> None:
        """Call `settled` once everything that is in flight now is committed."""
        if self._in_flight:
            next(reversed(self._in_flight.values())).waiting.append(settled)
        else:
            settled(None)

    def _stale_by(self, now_ms: float) -> int:
        limit_ms = now_ms - self.settings.max_metadata_age_ms
        while self._commits and self._commits[0][0] <= limit_ms:
            self._stale_offset = self._commits.popleft()[1]
        return self._stale_offset

    # -- appends in flight

    def appended(self, append: Append) -> None:
        """Another part of the node appends: its records become part of `pending` as well."""
        step: Step | None = None
        if self._pending is not None:
            records = [decode_metadata(each) for each in append.values]
            before, self._pending = self._pending, self._pending.replay_all(records)
            step = Step(before, self._pending) if are_outside_transactions(records) else None
            self._replica.call_soon(self._port.pending_changed)
        self._in_flight[append] = _InFlightAppend(step)

    def settled(self, append: Append, outcome: AppendOutcome) -> None:
        """Call the waiting callbacks. A failed append invalidates `pending`."""
        flight = self._in_flight.pop(append)
        if isinstance(outcome, Committed):
            self._commits.append((self._nondeterminism.now_ms(), outcome.end_offset))
            self._keep_speculative_step(flight, outcome)
            error = None
        else:
            self._drop(f"an append failed: {_text(outcome)}")
            error = outcome
        if not self._in_flight and not self._settling:
            self._settling = True
            self._replica.call_soon(self._settle_down)
        for waiting in flight.waiting:
            waiting(error)

    def _keep_speculative_step(self, flight: _InFlightAppend, outcome: Committed) -> None:
        """Commits arrive in the order of the log. Replay asks only for records that are not applied yet."""
        base_offset, end_offset = outcome.base_offset, outcome.end_offset
        if flight.step is not None and self._replica.committed.end_offset <= base_offset:
            self.speculative.committed(base_offset, end_offset, outcome.leader_epoch, flight.step)

    def _settle_down(self) -> None:
        """No append is in flight: `pending` and the committed image are the same again."""
        self._settling = False
        if self._in_flight:
            return
        if self._pending is None:
            self.check()
            return
        committed = self._replica.committed
        if committed.end_offset >= self._replica.high_watermark:
            self._pending = committed.image
        else:
            self._settling = True
            self._replica.when_applied(self._replica.high_watermark, self._settle_later)

    def _settle_later(self) -> None:
        self._replica.call_soon(self._settle_down)


def _no_callback(outcome: AppendOutcome) -> None:
    """The waiting callbacks are called by `settled`."""


def _text(outcome: TooLarge | RaftError) -> str:
    return outcome.value if isinstance(outcome, RaftError) else f"{outcome.size_bytes} bytes"
