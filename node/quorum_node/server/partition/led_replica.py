"""The controller's view of its replica, answered from the core: the leader, caught-up voters, possible successors.

Owns the queries about leadership, so that no other package depends on the core's roles. Changes nothing except by `hand_over`.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from quorum_node.controller.view import Replicas
from quorum_node.image.committed import CommittedImage
from quorum_node.raft import handover, safety
from quorum_node.raft import messages as raft
from quorum_node.raft.leadership import ChangeKind, Leader
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.server.partition.appends import AppendQueue
from quorum_node.server.partition.applier import Applier
from quorum_node.server.partition.driver import ReplicaDriver
from quorum_node.server.partition.port import Appends


class ReplicaParts(Protocol):
    """The parts of a replica's host that are used here."""

    @property
    def driver(self) -> ReplicaDriver: ...

    @property
    def appends(self) -> AppendQueue: ...

    @property
    def applier(self) -> Applier: ...

    def request(self, request: raft.Request, done: Callable[[raft.Response], None]) -> int:
        """Pass a request to the core."""


class LedReplica:
    """Implements the controller's protocols for the replica."""

    def __init__(self, host: ReplicaParts) -> None:
        self._host = host
        self._replica = host.driver.replica
        self._loop = asyncio.get_running_loop()
        self.appends: Appends = host.appends
        self.committed: CommittedImage = host.applier.committed

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record."""
        return self._replica.log_end

    @property
    def high_watermark(self) -> int:
        """End of the committed records."""
        return self._replica.high_watermark

    def knows_commits(self) -> bool:
        """Whether the high watermark is current, and not only restored: this process leads, or has received it from a leader."""
        replica, role = self._replica, self._replica.role
        if isinstance(role, Leader):
            return role.own_epoch_committed
        return replica.leader_high_watermark >= 0

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
        """Voters that are being added, and all replicas that fetch; empty on a node that does not lead."""
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

    def leader(self) -> raft.CurrentLeader:
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
        self._host.request(raft.ResignRequest(successor), lambda response: None)

    def controller_endpoint(self) -> Endpoint:
        """The endpoint of this node's Kafka listener for controllers."""
        endpoint = self._replica.controller_endpoint
        assert endpoint is not None, "a node has a controller listener"
        return endpoint
