"""The active controller: commands decide on a pending state, answers leave after the commit (K631-02, K631-03).

Owns `pending`, the committed image plus everything that is accepted and not committed yet; when this node
starts and stops being the active controller; and who waits for which commit. Must not know any command:
those are handed in, and see a `View`. Only replay changes the image, here as everywhere.

1. A leader that has committed a record of its own epoch, and has applied it, is the active controller. Its
   image is the standby's: nothing is loaded (KIP-631: "hot standbys").
2. A decision's records are replayed into `pending` and submitted. What others append (the admin API) is
   replayed just so. When replay comes to these records it takes over the image that was made here (`speculative_images.py`).
3. The answer leaves when the records are committed. An answer without records waits for everything that was
   accepted before it, because it may tell of that.
4. When an append fails, `pending` is worth nothing: it is dropped, whoever waits gets an error, and if this
   node still leads it begins again at 1 as soon as nothing is on its way.

Source: KIP-631, "Persistence and Visibility".
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from quorum_node.controller.decision import Decision
from quorum_node.controller.features import unknown_levels
from quorum_node.controller.leases import BrokerLeases
from quorum_node.controller.snapshot_turns import SnapshotTurns
from quorum_node.controller.unclean_elections import unclean_elections
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
    MetadataMessage,
    decode_metadata,
    encode_metadata,
    record_version,
)
from quorum_node.server.controller.chance import Chance
from quorum_node.server.controller.events import ControllerEvents
from quorum_node.server.controller.speculative_images import (
    SpeculativeImages,
    Step,
    say_the_same,
    take_effect_at_once,
)
from quorum_node.server.partition.port import (
    MAX_BATCH_BYTES,
    Append,
    AppendOutcome,
    Appends,
    Committed,
    TooLarge,
)

Settled = Callable[[RaftError | TooLarge | None], None]
"""Called once: None when the decision is committed, else why it is not."""


class ControlledReplica(Protocol):
    """The replica whose leader this is the controller of."""

    @property
    def appends(self) -> Appends: ...

    @property
    def committed(self) -> CommittedImage:
        """What is committed and applied."""

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    def leading_epoch(self) -> int | None:
        """The epoch that it leads and has committed a record of; None if it may not write."""

    def when_applied(self, offset: int, ready: Callable[[], None]) -> None:
        """Call `ready` once everything below `offset` is in the image; maybe at once."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """On the next turn of the loop."""

    def identity(self) -> tuple[str, int, tuple[ReplicaKey, ...]]:
        """Cluster id, own id, voters."""

    def replicas(self) -> Replicas:
        """See `View`."""


class ActivePort(Protocol):
    """Who works for the active controller, and hears of it."""

    def activated(self) -> None:
        """It takes commands from now on."""

    def pending_changed(self) -> None:
        """`pending` is another one."""

    def elected_unclean(self, partitions: int) -> None:
        """So many leaders from outside of the ISR are committed."""

    def snapshot_turns(self, now_ms: float) -> SnapshotTurns | None:
        """The order of snapshots in this activity."""


@dataclass(slots=True, eq=False)
class _Flight:
    """An append on its way, and who waits for it. `step`: what it does to `pending`, if replay can only do the same."""

    step: Step | None = None
    waiting: list[Settled] = field(default_factory=list)


class ActiveController:
    """One per replica of the metadata partition; inactive on all but the leader."""

    def __init__(
        self,
        replica: ControlledReplica,
        chance: Chance,
        events: ControllerEvents,
        port: ActivePort,
        *,
        session_timeout_ms: float,
        settings: Settings,
    ) -> None:
        self.settings = settings
        self.leases = BrokerLeases(session_timeout_ms)
        self.speculative = SpeculativeImages()
        """For replay."""
        self._replica = replica
        self._chance = chance
        self._events = events
        self._port = port
        self._pending: ClusterImage | None = None
        self._snapshot_turns: SnapshotTurns | None = None
        self._epoch = -1
        self._held_back: int | None = -1
        self._in_flight: dict[Append, _Flight] = {}
        self._checking = False
        self._settling = False
        self._commits: deque[tuple[float, int]] = deque()
        self._stale_offset = 0

    @property
    def pending(self) -> ClusterImage | None:
        """The state that the next command decides on; None: this node is not the active controller."""
        return self._pending

    @property
    def is_active(self) -> bool:
        """Whether commands are taken."""
        return self._pending is not None

    @property
    def is_held_back(self) -> bool:
        """Whether this node leads, and a finalized feature keeps it from being the active controller."""
        return self._pending is None and self._held_back == self._replica.leading_epoch()

    @property
    def epoch(self) -> int:
        """The epoch in which this node is, or last was, the active controller."""
        return self._epoch

    @property
    def flights(self) -> int:
        """Appends on their way."""
        return len(self._in_flight)

    # -- being it or not

    def check(self) -> None:
        """The role, the epoch or the high watermark may have changed."""
        epoch = self._replica.leading_epoch()
        if self._pending is not None:
            if epoch != self._epoch:
                self._drop("leadership is over")
            return
        if epoch is not None and not self._checking:
            self._checking = True
            self._replica.call_soon(self._claim)

    def _claim(self) -> None:
        """Become active, or wait until all that is committed is applied.

        Here no event of the core is half handled: what is on its way is not in the image.
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
            return  # it dropped its state in this epoch: `settled` comes back when nothing is left
        levels = tuple(unknown_levels(self._replica.committed.image))
        if levels:
            self._hold_back(epoch, levels)
            return
        self._epoch = epoch
        self._snapshot_turns = self._port.snapshot_turns(self._chance.now_ms())
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
        """Told once per epoch; a change of a level is seen with the next commit."""
        if self._held_back != epoch:
            self._held_back = epoch
            self._events.held_back(levels)

    def _claim_later(self) -> None:
        self._replica.call_soon(self._claim)

    def _renew_all(self, image: ClusterImage) -> None:
        """Nobody could report to this controller before: a lease for everyone."""
        now_ms = self._chance.now_ms()
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
        """Committed records that each broker has not applied; without those that have not told. Empty on a standby."""
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
        """What a command sees now; None on everyone but the active controller."""
        if self._pending is None:
            return None
        now_ms = self._chance.now_ms()
        replica = self._replica
        cluster_id, node_id, voters = replica.identity()
        return View(
            image=self._pending,
            leases=self.leases,
            now_ms=now_ms,
            fresh_uuid=self._chance.fresh_uuid,
            random=self._chance.random,
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
        """Append what was decided on the latest view; nothing else may have happened in between."""
        assert self._pending is not None
        if not decision.records:
            self.after_all(settled)
            return
        values = _encoded(decision.records, self._pending.features.metadata_version)
        total_bytes = sum(map(len, values))
        if total_bytes > MAX_BATCH_BYTES and (
            decision.atomic or max(map(len, values)) > MAX_BATCH_BYTES
        ):
            settled(TooLarge(total_bytes))
            return
        before, self._pending = self._pending, self._pending.replay_all(decision.records)
        chunks = _chunks(values)
        records = decision.records
        step: Step | None = None
        if len(chunks) == 1 and take_effect_at_once(records) and say_the_same(records, values):
            step = Step(before, self._pending)
        for chunk in chunks:
            append = self._replica.appends.submit(chunk, _nobody_waits)
            assert append is not None, "a chunk fits into a batch"
            self._in_flight[append] = _Flight(step)
        unclean = unclean_elections(before, records)
        if unclean:
            self.after_all(
                lambda error: None if error is not None else self._port.elected_unclean(unclean)
            )
        self.after_all(settled)
        self._port.pending_changed()

    def after_all(self, settled: Settled) -> None:
        """Once everything is committed that is on its way now."""
        if self._in_flight:
            next(reversed(self._in_flight.values())).waiting.append(settled)
        else:
            settled(None)

    def _stale_by(self, now_ms: float) -> int:
        limit_ms = now_ms - self.settings.max_metadata_age_ms
        while self._commits and self._commits[0][0] <= limit_ms:
            self._stale_offset = self._commits.popleft()[1]
        return self._stale_offset

    # -- appends on their way

    def appended(self, append: Append) -> None:
        """Somebody else appends: what was not decided here becomes part of `pending` all the same."""
        step: Step | None = None
        if self._pending is not None:
            records = [decode_metadata(each) for each in append.values]
            before, self._pending = self._pending, self._pending.replay_all(records)
            step = Step(before, self._pending) if take_effect_at_once(records) else None
            self._replica.call_soon(self._port.pending_changed)
        self._in_flight[append] = _Flight(step)

    def settled(self, append: Append, outcome: AppendOutcome) -> None:
        """Answer who waits; a failure ends this controller's view of the state."""
        flight = self._in_flight.pop(append)
        if isinstance(outcome, Committed):
            self._commits.append((self._chance.now_ms(), outcome.end_offset))
            self._foresee(flight, outcome)
            error = None
        else:
            self._drop(f"an append failed: {_text(outcome)}")
            error = outcome
        if not self._in_flight and not self._settling:
            self._settling = True
            self._replica.call_soon(self._settle_down)
        for waiting in flight.waiting:
            waiting(error)

    def _foresee(self, flight: _Flight, outcome: Committed) -> None:
        """Commits come in the order of the log; what has been applied already is not asked for any more."""
        base_offset, end_offset = outcome.base_offset, outcome.end_offset
        if flight.step is not None and self._replica.committed.end_offset <= base_offset:
            self.speculative.committed(base_offset, end_offset, outcome.leader_epoch, flight.step)

    def _settle_down(self) -> None:
        """Nothing is on its way: `pending` and the committed image are one and the same again."""
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


def _encoded(records: Sequence[MetadataMessage], level: int) -> list[bytes]:
    versions = {kind: record_version(kind, level) for kind in set(map(type, records))}
    return [encode_metadata(record, versions[type(record)]) for record in records]


def _chunks(values: Sequence[bytes]) -> list[tuple[bytes, ...]]:
    """Whole values, as many as fit into a batch."""
    chunks: list[tuple[bytes, ...]] = []
    chunk: list[bytes] = []
    size_bytes = 0
    for value in values:
        if chunk and size_bytes + len(value) > MAX_BATCH_BYTES:
            chunks.append(tuple(chunk))
            chunk, size_bytes = [], 0
        chunk.append(value)
        size_bytes += len(value)
    return [*chunks, tuple(chunk)]


def _nobody_waits(outcome: AppendOutcome) -> None:
    """Who waits is told through the flight."""


def _text(outcome: TooLarge | RaftError) -> str:
    return outcome.value if isinstance(outcome, RaftError) else f"{outcome.size_bytes} bytes"
