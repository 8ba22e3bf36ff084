"""The active controller's own decisions: leases expire, partitions get new leaders, reassignments are completed.

Owns when they are made: after every change of the state, when a lease expires, and periodically. Must not know what has to be done
(`ActiveController` decides with pure functions). One decision has a bounded number of records, and the loop runs other callbacks before
the next one. All state follows from the image, so a new controller starts with a full sweep (KV3-06).
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter

from quorum_node.controller.broker_partitions import suspicious
from quorum_node.controller.decision import Decision
from quorum_node.controller.elections import balance_some
from quorum_node.controller.features import begin
from quorum_node.controller.heartbeats import fence_expired, next_expiry_ms
from quorum_node.controller.id_space import doubled
from quorum_node.controller.partition_repair import repair_some
from quorum_node.controller.view import View
from quorum_node.image.brokers import BrokersImage
from quorum_node.image.partition_sets import IndexKey
from quorum_node.image.topics import PartitionKey
from quorum_node.raft.errors import RaftError
from quorum_node.records.metadata import MetadataMessage
from quorum_node.server.controller.active_controller import ActiveController
from quorum_node.server.controller.events import ControllerEvents
from quorum_node.server.observing.metrics import PartitionMetrics
from quorum_node.server.partition.port import TooLarge

Task = Callable[[View], Decision]
"""A maintenance task: its decision is bounded, and empty when there is nothing to do."""
MAX_IN_FLIGHT = 3
"""Maximum number of decisions in flight; the sweep waits when it is reached."""
PERIOD_SECONDS = 30.0
"""Period of the full sweep. All work is triggered by changes; the sweep covers triggers that were missed."""


class Maintenance:
    """One per controller; idle while the controller is not active.

    `balance_seconds`: period at which leadership returns to the preferred replicas; None: never. `first_credentials`: records of the
    first credentials of a new quorum.
    """

    def __init__(
        self,
        controller: ActiveController,
        events: ControllerEvents,
        metrics: PartitionMetrics,
        in_transaction: Callable[[], bool],
        *,
        balance_seconds: float | None = None,
        first_credentials: Sequence[MetadataMessage] = (),
    ) -> None:
        self._first_credentials = first_credentials
        self._balance_seconds = balance_seconds
        self._controller = controller
        self._events = events
        self._metrics = metrics
        self._in_transaction = in_transaction
        self._loop = asyncio.get_running_loop()
        self._is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._period: asyncio.TimerHandle | None = None
        self._balance: asyncio.TimerHandle | None = None
        self._swept: BrokersImage | None = None
        self._keys: Iterator[IndexKey | None] | None = None
        self._unbalanced: Iterator[PartitionKey] | None = None
        self._repaired = 0
        self._sweep_began = 0.0
        self._doubled: frozenset[int] = frozenset()

    def close(self) -> None:
        """Cancel the timers."""
        for timer in (self._timer, self._period, self._balance):
            if timer is not None:
                timer.cancel()

    def activated(self) -> None:
        """This node is the active controller from now on."""
        self._swept = self._keys = self._unbalanced = None
        self._doubled = frozenset()
        pending = self._controller.pending
        assert pending is not None
        records = begin(
            pending,
            in_transaction=self._in_transaction(),
            first_credentials=self._first_credentials,
            static_configs=self._controller.settings.static_configs,
        )
        if records:
            self._controller.carry_out(Decision(records), self._done)
        self._tick()
        self._balance_later()

    def _tick(self) -> None:
        """Called periodically while this node is the active controller."""
        if self._period is not None:
            self._period.cancel()
        self._period = None
        if self._controller.is_active:
            self._period = self._loop.call_later(PERIOD_SECONDS, self._look_again)
            self.look()

    def _look_again(self) -> None:
        self._swept = None
        self._tick()

    def _balance_later(self) -> None:
        if self._balance is not None:
            self._balance.cancel()
        self._balance = None
        if self._balance_seconds is not None and self._controller.is_active:
            self._balance = self._loop.call_later(self._balance_seconds, self._balance_leaders)

    def _balance_leaders(self) -> None:
        pending = self._controller.pending
        if pending is not None:
            self._unbalanced = pending.topics.not_preferred()
            self.look()
        self._balance_later()

    def look(self) -> None:
        """Check for work: something may have changed."""
        if not self._is_due and self._controller.is_active:
            self._is_due = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        """Run one task; it is scheduled again as long as there is work."""
        self._is_due = False
        view = self._controller.view()
        if view is None:
            self._keys = self._unbalanced = None
            return
        if self._controller.in_flight >= MAX_IN_FLIGHT:
            self._controller.after_all(self._done)
            return
        if self._carry_out(fence_expired, view):
            view = self._controller.view()
        if view is not None and self._sweep(view):
            view = self._controller.view()
        if view is not None and self._balance_some(view):
            view = self._controller.view()
        self._arm(view)

    def _carry_out(self, task: Task, view: View) -> bool:
        """Returns whether it decided something: the view is out of date then."""
        decision = task(view)
        if decision.records:
            self._events.decided(decision.records)
            self._controller.carry_out(decision, self._done)
        return bool(decision.records)

    def _sweep(self, view: View) -> bool:
        """Check a piece of the partitions after brokers were lost or came back. Returns whether it decided something."""
        if self._keys is None:
            if view.image.brokers == self._swept:
                return False
            self._begin_sweep(view)
        assert self._keys is not None
        decision, ended = repair_some(view, self._keys)
        if decision.records:
            self._repaired += len(decision.records)
            self._controller.carry_out(decision, self._done)
        if ended:
            self._end_sweep()
        self.look()
        return bool(decision.records)

    def _balance_some(self, view: View) -> bool:
        """Balance the leaders of a piece of the partitions. Returns whether it decided something."""
        if self._unbalanced is None:
            return False
        decision, ended = balance_some(view, self._unbalanced)
        if decision.records:
            self._controller.carry_out(decision, self._done)
        if ended:
            self._unbalanced = None
        self.look()
        return bool(decision.records)

    def _begin_sweep(self, view: View) -> None:
        self._swept = view.image.brokers
        self._keys = suspicious(view.image)
        self._warn_of_doubled_ids(view)
        self._repaired = 0
        self._sweep_began = perf_counter()

    def _warn_of_doubled_ids(self, view: View) -> None:
        """Logged once per id and controller: they were registered before this was refused, or by other software."""
        ids = frozenset(doubled(view))
        if ids - self._doubled:
            self._events.ids_doubled(sorted(ids - self._doubled))
        self._doubled = ids

    def _end_sweep(self) -> None:
        self._keys = None
        if self._repaired:
            self._events.repaired(self._repaired, perf_counter() - self._sweep_began)

    def elected_unclean(self, partitions: int) -> None:
        """Called for every unclean election, whatever caused it."""
        self._metrics.count("unclean_elections", partitions)
        self._events.elected_unclean(partitions)

    def _arm(self, view: View | None) -> None:
        """Set the timer for the lease that expires next."""
        expiry_ms = None if view is None else next_expiry_ms(view)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if view is not None and expiry_ms is not None:
            delay_seconds = max(0.001, (expiry_ms - view.now_ms) / 1000)
            self._timer = self._loop.call_later(delay_seconds, self.look)

    def _done(self, error: RaftError | TooLarge | None) -> None:
        """A decision is committed: there may be more work. After a failure the next active controller decides again."""
        if error is None:
            self.look()
        elif isinstance(error, TooLarge):
            raise AssertionError(f"maintenance made a record of {error.size_bytes} bytes")
