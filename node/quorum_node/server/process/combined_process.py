"""A process with both roles: a member of the quorum with the controller, and a broker, on one replica of the metadata log.

Owns what differs from a process with one role: the roles share the replica and the incarnation id, and each has its own listeners.
The incarnation id shows the controller that a broker and a voter with the same node id are one process (`controller/id_space.py`), so
the broker registers after the controller.
"""

import math
from collections.abc import Mapping

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import APIS
from quorum_node.protocol.broker_apis import BROKER_APIS
from quorum_node.raft import messages as raft
from quorum_node.records.metadata.metadata_version import (
    CONTROLLER_REGISTRATION_LEVEL,
    METADATA_VERSION,
)
from quorum_node.security.rights.api_table import CONTROLLER_TABLE
from quorum_node.security.rights.broker_table import BROKER_TABLE
from quorum_node.server.controller.port import Decider
from quorum_node.server.listener.kafka_listener import ServedApis
from quorum_node.server.listener.port import Handler
from quorum_node.server.partition.led_replica import LedReplica
from quorum_node.server.partition.port import Append, AppendOutcome, NamesVoters, PartitionRole
from quorum_node.server.partition.replica_host import ReplicaHost
from quorum_node.server.peers.pool import PeerPool
from quorum_node.server.peers.port import Peers
from quorum_node.server.process.broker_process import BrokerProcess
from quorum_node.server.rights.guard_factory import access_settings, make_guard
from quorum_node.server.rights.port import Guard


class BothRoles:
    """The controller and the broker as the one role of a partition. Both are informed of changes; all results are the controller's."""

    def __init__(self, controller: PartitionRole, broker: PartitionRole) -> None:
        self._controller = controller
        self._broker = broker

    @property
    def is_active(self) -> bool:
        """See `PartitionRole`."""
        return self._controller.is_active

    def progressed(self) -> None:
        """See `PartitionRole`."""
        self._controller.progressed()
        self._broker.progressed()

    def image_changed(self) -> None:
        """See `PartitionRole`."""
        self._controller.image_changed()
        self._broker.image_changed()

    def image_behind(
        self, image: ClusterImage, base_offset: int, end_offset: int, epoch: int
    ) -> ClusterImage | None:
        """See `PartitionRole`."""
        return self._controller.image_behind(image, base_offset, end_offset, epoch)

    def appended(self, append: Append) -> None:
        """See `PartitionRole`."""
        self._controller.appended(append)

    def settled(self, append: Append, outcome: AppendOutcome) -> None:
        """See `PartitionRole`."""
        self._controller.settled(append, outcome)

    def refuse_voters(self, request: NamesVoters) -> raft.VoterChangeResponse | None:
        """See `PartitionRole`."""
        return self._controller.refuse_voters(request)

    def may_begin_snapshot(self) -> bool:
        """See `PartitionRole`."""
        return self._controller.may_begin_snapshot()

    def snapshot_ended(self) -> None:
        """See `PartitionRole`."""
        self._controller.snapshot_ended()

    def broker_lags(self) -> dict[int, int]:
        """See `PartitionRole`."""
        return self._controller.broker_lags()


class CombinedProcess(BrokerProcess):
    """See the module."""

    _apis: Mapping[int, Api] = APIS
    _api_table = CONTROLLER_TABLE
    _as_broker: PeerPool | None = None

    def _make_role(self, host: ReplicaHost) -> PartitionRole:
        return BothRoles(super(BrokerProcess, self)._make_role(host), super()._make_role(host))

    def _to_controllers(self, host: ReplicaHost) -> Peers:
        """With TLS the broker uses its own certificate: the certificate of a member does not authenticate a broker."""
        dialling = self._secured.dial_controllers_as_broker()
        if dialling is None:
            return host.peers
        self._as_broker = self._pool(f"broker-{self._config.node_id}", dialling)
        return self._as_broker

    def _handler(self) -> Handler:
        return super(BrokerProcess, self)._handler()

    def _served_by_other_role(self) -> Mapping[str, ServedApis]:
        return dict.fromkeys(self._names_of_broker(), ServedApis(self._broker.handle, BROKER_APIS))

    def _decider(self) -> Decider:
        return super(BrokerProcess, self)._decider()

    def guard_of_broker(self) -> Guard | None:
        """See `BrokerOwner`."""
        return make_guard(
            access_settings(self._config, BROKER_TABLE),
            LedReplica(self._hosted.first),
            # No voter ids: a broker with the id of a voter is the voter's own process here, and this listener serves no votes.
            frozenset[int],
            self._metrics,
        )

    def may_register(self, image: ClusterImage) -> bool:
        """See `BrokerOwner`."""
        if image.features.levels.get(METADATA_VERSION, 0) < CONTROLLER_REGISTRATION_LEVEL:
            return True
        own = image.controllers.get(self._config.node_id)
        return own is not None and own.incarnation_id == self._incarnation_id

    async def _open_listeners(self) -> None:
        names = [each.name for each in self._config.controller_listeners]
        await self._listeners.start(names)

    def _close_role(self) -> None:
        super()._close_role()
        super(BrokerProcess, self)._close_role()
        if self._as_broker is not None:
            self._as_broker.close()

    def _renew_connections(self, *, proven_before: float = math.inf) -> None:
        super()._renew_connections(proven_before=proven_before)
        if self._as_broker is not None:
            self._as_broker.renew(proven_before=proven_before)
