"""The controller on a partition's replica: builds its parts and connects them.

Owns the wiring. It is the role of partition 0 (`PartitionRole`) and the port of the active controller (`ActivePort`). Depends on both sides;
neither of them depends on the other.
"""

from collections.abc import Iterable
from functools import partial
from uuid import UUID

from quorum_node.configuration.node_config import NodeConfig
from quorum_node.controller.id_space import voter_conflict
from quorum_node.controller.snapshot_turns import SnapshotTurns
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.protocol.broker_registration import RegisteredListener
from quorum_node.raft.errors import RaftError
from quorum_node.raft.messages import AddVoterRequest, VoterChangeResponse
from quorum_node.records.metadata import UserScramCredentialRecord
from quorum_node.server.controller.active_controller import ActiveController
from quorum_node.server.controller.controller_api import ControllerApi
from quorum_node.server.controller.events import ControllerEvents
from quorum_node.server.controller.maintenance import Maintenance
from quorum_node.server.controller.nondeterminism import Nondeterminism
from quorum_node.server.controller.port import NodeReplica
from quorum_node.server.controller.registrar import Registrar, own_registration
from quorum_node.server.controller.snapshot_coordinator import SnapshotCoordinator, Writer
from quorum_node.server.observing.metrics import PartitionMetrics
from quorum_node.server.partition.port import Append, AppendOutcome, NamesVoters, clock_ms
from quorum_node.server.peers.port import Peers


class HostedController:
    """The controller of one replica, its maintenance and its API."""

    def __init__(
        self,
        replica: NodeReplica,
        writer: Writer,
        peers: Peers,
        metrics: PartitionMetrics,
        config: NodeConfig,
        first_credentials: tuple[UserScramCredentialRecord, ...] = (),
        incarnation_id: UUID | None = None,
    ) -> None:
        """`incarnation_id`: of this process, shared by its roles."""
        events = ControllerEvents()
        nondeterminism = Nondeterminism(clock_ms)
        ask = partial(peers.ask, timeout_ms=config.timeouts.request_timeout_ms)
        self._replica = replica
        self.controller = ActiveController(
            replica,
            nondeterminism,
            events,
            self,
            session_timeout_ms=config.controller.session_timeout_ms,
            settings=config.controller.settings,
        )
        self.maintenance = Maintenance(
            self.controller,
            events,
            metrics,
            lambda: replica.committed.in_transaction,
            balance_seconds=config.controller.balance_seconds,
            first_credentials=first_credentials,
        )
        self.api = ControllerApi(self.controller, metrics)
        self.registrar = Registrar(
            replica,
            own_registration(
                replica.key,
                replica.controller_endpoint(),
                config.dialled.protocol,
                (
                    RegisteredListener(
                        name=each.name,
                        host=each.advertised.host,
                        port=each.advertised.port,
                        security_protocol=each.protocol.id,
                    )
                    for each in config.controller_listeners[1:]
                ),
                incarnation_id,
            ),
            self.controller,
            ask,
            events,
        )
        self.snapshots = SnapshotCoordinator(
            replica, writer, self.controller, ask, nondeterminism, events, config.snapshots
        )

    @property
    def is_held_back(self) -> bool:
        """Whether this node leads, but can't be the active controller. It then accepts plain configs only."""
        return self.controller.is_held_back

    def finalized_levels(self) -> Iterable[tuple[str, int]]:
        """Name and level of each finalized feature, as committed."""
        return self._replica.committed.image.features.levels.items()

    def finalized_epoch(self) -> int:
        """Offset in the log at which these levels were read. It never decreases."""
        return self._replica.committed.end_offset - 1

    def refuse_voters(self, request: NamesVoters) -> VoterChangeResponse | None:
        """The refusal of a voter change that would give a voter the id of a broker (see `controller/id_space.py`); None if it is allowed.

        A leader that is not the active controller (yet) decides on the committed image.
        """
        if not self._replica.is_leader():
            return None
        _, _, voters = self._replica.identity()
        image = self.controller.pending or self._replica.committed.image
        newcomers = (
            (request.voter,) if isinstance(request, AddVoterRequest) else request.target or ()
        )
        for key in newcomers:
            conflict = voter_conflict(image, voters, key)
            if conflict is not None:
                leader = self._replica.leader()
                return VoterChangeResponse(RaftError.NODE_ID_IN_USE, leader, conflict)
        return None

    def close(self) -> None:
        """Cancel the timers."""
        self.maintenance.close()
        self.registrar.close()
        self.snapshots.close()

    # -- the role of the partition

    @property
    def is_active(self) -> bool:
        """See `PartitionRole`."""
        return self.controller.is_active

    def progressed(self) -> None:
        """See `PartitionRole`."""
        self.controller.check()
        self.registrar.look()
        self.snapshots.look()

    def image_changed(self) -> None:
        """See `PartitionRole`."""
        self.registrar.image_changed()

    def image_behind(
        self, image: ClusterImage, base_offset: int, end_offset: int, epoch: int
    ) -> ClusterImage | None:
        """See `PartitionRole`."""
        return self.controller.speculative.behind(image, base_offset, end_offset, epoch)

    def appended(self, append: Append) -> None:
        """See `PartitionRole`."""
        self.controller.appended(append)

    def settled(self, append: Append, outcome: AppendOutcome) -> None:
        """See `PartitionRole`."""
        self.controller.settled(append, outcome)

    def may_begin_snapshot(self) -> bool:
        """See `PartitionRole`."""
        return self.snapshots.may_begin()

    def snapshot_ended(self) -> None:
        """See `PartitionRole`."""
        self.snapshots.ended()

    def broker_lags(self) -> dict[int, int]:
        """See `PartitionRole`."""
        return self.controller.broker_lags()

    # -- from the active controller

    def activated(self) -> None:
        """See `ActivePort`."""
        self.maintenance.activated()

    def pending_changed(self) -> None:
        """See `ActivePort`."""
        self.maintenance.look()

    def elected_unclean(self, partitions: int) -> None:
        """See `ActivePort`."""
        self.maintenance.elected_unclean(partitions)

    def snapshot_turns(self, now_ms: float) -> SnapshotTurns:
        """See `ActivePort`."""
        return self.snapshots.turns(now_ms)
