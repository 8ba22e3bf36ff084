"""The controller on top of a hosted replica: what it needs of it, and who tells it what.

Owns the wiring. Knows both sides; neither of them knows the other.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from quorum_node.configuration.snapshots import SnapshotPolicy
from quorum_node.controller.id_space import voter_conflict
from quorum_node.controller.view import Replicas, Settings
from quorum_node.image.committed import CommittedImage
from quorum_node.raft import handover, safety
from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import ChangeKind, Leader
from quorum_node.raft.messages import (
    AddVoterRequest,
    CurrentLeader,
    ResignRequest,
    VoterChangeResponse,
)
from quorum_node.records.identity import ReplicaKey
from quorum_node.server.controller.active_controller import ActiveController
from quorum_node.server.controller.chance import Chance
from quorum_node.server.controller.controller_api import ControllerApi
from quorum_node.server.controller.events import ControllerEvents
from quorum_node.server.controller.maintenance import Maintenance
from quorum_node.server.controller.registrar import Registrar, own_registration
from quorum_node.server.controller.snapshot_coordinator import SnapshotCoordinator
from quorum_node.server.observing.metrics import PartitionMetrics
from quorum_node.server.partition.appends import AppendQueue
from quorum_node.server.partition.replica_host import NamesVoters, ReplicaHost, clock_ms


class HostedReplica:
    """A replica host as the controller sees it."""

    def __init__(self, host: ReplicaHost) -> None:
        self._host = host
        self._replica = host.driver.replica
        self._loop = asyncio.get_running_loop()
        self.appends: AppendQueue = host.appends
        self.committed: CommittedImage = host.applier.committed

    @property
    def log_end_offset(self) -> int:
        """Where the next record goes."""
        return self._replica.log_end

    @property
    def high_watermark(self) -> int:
        """Everything below is committed."""
        return self._replica.high_watermark

    def leading_epoch(self) -> int | None:
        """See `ControlledReplica`."""
        replica, role = self._replica, self._replica.role
        if not isinstance(role, Leader) or not role.own_epoch_committed:
            return None
        if role.handover is not None or not replica.formed or replica.halted:
            return None
        return replica.epoch

    def when_applied(self, offset: int, ready: Callable[[], None]) -> None:
        """See `ControlledReplica`."""
        self._host.applier.when_applied(offset, ready)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """See `ControlledReplica`."""
        self._loop.call_soon(callback)

    def identity(self) -> tuple[str, int, tuple[ReplicaKey, ...]]:
        """Cluster id, own id, voters."""
        replica = self._replica
        voters = replica.voters.latest.voters
        return replica.cluster_id or "", replica.key.id, voters.ordered_keys

    def replicas(self) -> Replicas:
        """Who becomes a voter, and who fetches; nothing on a node that does not lead."""
        role = self._replica.role
        if not isinstance(role, Leader):
            return Replicas()
        joining = self._replica.voters.latest.record.target_voters or ()
        if role.change is not None and role.change.kind is ChangeKind.ADD:
            joining = (*joining, role.change.voter)
        return Replicas(joining, tuple(role.progress))

    @property
    def key(self) -> ReplicaKey:
        """See `RegisteringReplica`."""
        return self._replica.key

    def leader(self) -> CurrentLeader:
        """See `RegisteringReplica`."""
        return self._replica.current_leader()

    def is_leader(self) -> bool:
        """See `CoordinatedReplica`."""
        return isinstance(self._replica.role, Leader)

    def newest_voter_of_own_id(self) -> ReplicaKey | None:
        """See `RegisteringReplica`."""
        newest = self._replica.voters.latest.voters.newest(self._replica.key.id)
        return newest.key if newest is not None else None

    def has_stopped(self) -> bool:
        """See `RegisteringReplica`."""
        return self._replica.halted or self._replica.stopping

    def voters_caught_up(self) -> tuple[int, int]:
        """See `CoordinatedReplica`."""
        replica, role = self._replica, self._replica.role
        voters = replica.voters.latest.voters
        if not isinstance(role, Leader):
            return len(voters), len(voters)
        return len(voters), safety.live_voters(replica, role, voters)

    def successors(self) -> list[ReplicaKey]:
        """See `CoordinatedReplica`."""
        replica, role = self._replica, self._replica.role
        if not isinstance(role, Leader):
            return []
        return [
            key
            for key in handover.electable(replica, role)
            if (progress := role.progress.get(key)) is not None
            and safety.is_caught_up(replica, progress)
        ]

    def hand_over(self, successor: ReplicaKey) -> None:
        """See `CoordinatedReplica`."""
        self._host.request(ResignRequest(successor), lambda response: None)


class HostedController:
    """The controller of one replica, its maintenance and its API."""

    def __init__(
        self,
        host: ReplicaHost,
        metrics: PartitionMetrics,
        *,
        session_timeout_ms: float,
        settings: Settings,
        snapshot_policy: SnapshotPolicy,
        request_timeout_ms: float,
    ) -> None:
        events = ControllerEvents()
        chance = Chance(clock_ms)
        ask = partial(host.peers.ask, timeout_ms=request_timeout_ms)
        replica = self._replica = HostedReplica(host)
        self.controller = ActiveController(
            replica,
            chance,
            events,
            session_timeout_ms=session_timeout_ms,
            settings=settings,
        )
        self.controller.identity = replica.identity
        self.controller.replicas = replica.replicas
        self.maintenance = Maintenance(
            self.controller, events, metrics, lambda: replica.committed.in_transaction
        )
        self.api = ControllerApi(self.controller, metrics)
        core = host.driver.replica
        assert core.controller_endpoint is not None, "a node has a controller listener"
        self.registrar = Registrar(
            replica,
            own_registration(core.key, core.controller_endpoint),
            self.controller,
            ask,
            events,
        )
        self.snapshots = SnapshotCoordinator(
            replica, host.snapshotter, self.controller, ask, chance, events, snapshot_policy
        )
        host.snapshotter.may_begin = self.snapshots.may_begin
        host.snapshotter.on_ended = self.snapshots.ended
        host.on_progress = self._progress
        host.applier.foreseen = self.controller.foreseen.behind
        host.applier.on_image = self.registrar.image_changed
        host.refuse_voters = self.refuse_voters
        host.broker_lags = self.controller.broker_lags
        host.is_active_controller = lambda: self.controller.is_active

    @property
    def is_held_back(self) -> bool:
        """Whether this node leads and may not decide: then plain configs are all that it takes."""
        return self.controller.is_held_back

    def finalized_levels(self) -> Iterable[tuple[str, int]]:
        """Committed levels of features."""
        return self._replica.committed.image.features.levels.items()

    def finalized_epoch(self) -> int:
        """Where in the log these levels were known; it only grows."""
        return self._replica.committed.end_offset - 1

    def refuse_voters(self, request: NamesVoters) -> VoterChangeResponse | None:
        """The answer to a change that would make a voter of a broker's id (see `controller/id_space.py`).

        On a leader that is not the active controller (yet) what is committed decides.
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
        """No more timers."""
        self.maintenance.close()
        self.registrar.close()
        self.snapshots.close()

    def _progress(self) -> None:
        self.controller.check()
        self.registrar.look()
        self.snapshots.look()
