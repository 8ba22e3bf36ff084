"""The real controller of a simulated replica: append queue, applier, active controller, maintenance.

Owns their wiring in one run of a process, as `server/controller/hosting.py` does in a real one. Must not know
clients. Registration as a controller and turns of snapshots are left out: they need requests of their own.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast
from uuid import UUID

from quorum_node.controller.decision import Decision
from quorum_node.controller.view import Settings, View
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.raft.events import Proposed, StorageFailed
from quorum_node.raft.outputs import ProposalCommitted, ProposalFailed
from quorum_node.server.controller.active_controller import ActiveController
from quorum_node.server.controller.events import ControllerEvents
from quorum_node.server.controller.maintenance import Maintenance
from quorum_node.server.controller.nondeterminism import Nondeterminism
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.partition.appends import AppendQueue
from quorum_node.server.partition.applier import Applier
from quorum_node.server.partition.led_replica import LedReplica, ReplicaParts
from quorum_node.server.partition.port import Append, AppendDone, AppendOutcome
from quorum_simulation.control.loop import SimulatedLoop, running

if TYPE_CHECKING:
    from quorum_simulation.host import SimulatedHost

SESSION_TIMEOUT_MS = 1500.0
Command = Callable[[View], Decision]


class _Silent(ControllerEvents):
    """A logger without output: the logs of thousands of histories are not read."""

    def __getattribute__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: None


class _Applier(Applier):
    """Without `gc.freeze`: histories are short and many."""

    def _keep(self) -> None: ...


class SimulatedController:
    """The controller in one run of a process."""

    def __init__(self, host: "SimulatedHost") -> None:
        self._host = host
        self.driver = host.driver
        metrics = Metrics().partition(0)
        random = host.random
        nondeterminism = Nondeterminism(
            host.machine.clock.monotonic_ms,
            lambda: UUID(int=random.getrandbits(128) | 1 << 127),
            random.randrange,
        )
        with running(SimulatedLoop(host)):
            self.appends = AppendQueue(self._propose, self._settled, metrics)
            self.applier = _Applier(host.log, self, metrics)
            # Of a replica host it needs the driver, the appends and the applier, which this class
            # has.
            replica = self._replica = LedReplica(cast(ReplicaParts, self))
            self.active = ActiveController(
                replica,
                nondeterminism,
                _Silent(),
                self,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                settings=Settings(),
            )
            self._maintenance = Maintenance(
                self.active, _Silent(), metrics, lambda: replica.committed.in_transaction
            )

    @property
    def image(self) -> ClusterImage:
        """The committed and applied image."""
        return self.applier.image

    def leading_epoch(self) -> int | None:
        """See `LedReplica`."""
        return self._replica.leading_epoch()

    def submit(self, values: tuple[bytes, ...], done: AppendDone) -> None:
        """Append a decision from elsewhere, as the admin API does."""
        append = self.appends.submit(values, done)
        if append is not None:
            self.active.appended(append)

    def do(self, command: Command) -> None:
        """Run a client's command if this node is the active controller; the response is dropped."""
        view = self.active.view()
        if view is not None:
            self.active.carry_out(command(view), lambda error: None)

    def advanced(self, high_watermark: int) -> None:
        """The high watermark has advanced."""
        self.applier.advance(high_watermark)
        self.progressed()

    def progressed(self) -> None:
        """The role or the voters may have changed."""
        self.active.check()
        self._host.cluster.watch.controller_progressed(self._host)

    def committed(self, output: ProposalCommitted) -> None:
        """Pass the outcome to the append queue."""
        self.appends.committed(output.proposal_id, output.base_offset, output.leader_epoch)

    def failed(self, output: ProposalFailed) -> None:
        """Pass the outcome to the append queue."""
        self.appends.failed(output.proposal_id, output.error)

    # -- from the applier

    def image_behind(
        self, image: ClusterImage, base_offset: int, end_offset: int, epoch: int
    ) -> ClusterImage | None:
        """See `ApplierPort`."""
        return self.active.speculative.behind(image, base_offset, end_offset, epoch)

    def applied(self, size_bytes: int) -> None:
        """Not used: the simulation makes its own snapshots."""

    def image_changed(self) -> None:
        """See `ApplierPort`."""
        self._host.cluster.watch.image_applied(self._host)

    def unreadable(self, error: Exception) -> None:
        """See `ApplierPort`."""
        self._host.driver.handle(StorageFailed(str(error)))

    # -- from the active controller

    def activated(self) -> None:
        """See `ActivePort`."""
        self._maintenance.activated()

    def pending_changed(self) -> None:
        """See `ActivePort`."""
        self._maintenance.look()

    def elected_unclean(self, partitions: int) -> None:
        """See `ActivePort`."""
        self._maintenance.elected_unclean(partitions)

    def snapshot_turns(self, now_ms: float) -> None:
        """See `ActivePort`; turns are left out."""

    def _settled(self, append: Append, outcome: AppendOutcome) -> None:
        self.active.settled(append, outcome)

    def _propose(self, proposal_id: int, values: tuple[bytes, ...]) -> None:
        self._host.driver.handle(Proposed(proposal_id, values))
