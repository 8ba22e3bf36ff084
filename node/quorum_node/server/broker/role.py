"""The broker as a role of the metadata partition: builds its parts and connects them.

Owns the wiring and the order of the start. When the replica has caught up, the directory is opened and the broker registers. Then the
replicas of partitions apply the image that contains the registration. It is the role of partition 0 (`PartitionRole`).
"""

import asyncio
from collections.abc import Callable
from uuid import UUID

from quorum_node.broker.placement import AmbiguousReplica, lacks_directory
from quorum_node.configuration.node_config import NodeConfig
from quorum_node.controller.feature_levels import METADATA_VERSION_NAMES
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.protocol.broker_registration import RegisteredListener
from quorum_node.records.identity import Endpoint
from quorum_node.records.metadata.metadata_version import (
    CORDONED_DIRECTORIES_LEVEL,
    DIRECTORIES_LEVEL,
)
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.broker_api import BrokerApi
from quorum_node.server.broker.controller_channel import ControllerChannel
from quorum_node.server.broker.coordinator_lookup import CoordinatorLookup
from quorum_node.server.broker.data_directories import DataDirectories
from quorum_node.server.broker.directory_assignments import DirectoryAssignments
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.fetchers import Fetchers
from quorum_node.server.broker.forwarding import Forwarding, Refuse
from quorum_node.server.broker.group_api import GroupApi
from quorum_node.server.broker.group_coordinators import GroupCoordinators
from quorum_node.server.broker.internal_topics import OffsetsTopicCreation
from quorum_node.server.broker.isr_requests import IsrRequests
from quorum_node.server.broker.lifecycle import (
    NO_EPOCH,
    BrokerState,
    Lifecycle,
    LifecycleCallbacks,
    registration,
)
from quorum_node.server.broker.metadata_api import MetadataApi
from quorum_node.server.broker.port import BrokerOwner, MetadataReplica
from quorum_node.server.broker.producer_ids import ProducerIds
from quorum_node.server.broker.replica_timers import Intervals
from quorum_node.server.broker.topic_values import TopicValues
from quorum_node.server.broker.transaction_coordinators import TransactionCoordinators
from quorum_node.server.broker.transaction_verification import TransactionVerification
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.partition.port import NoRole
from quorum_node.server.peers.port import Peers
from quorum_node.storage.errors import DiskFull, StorageFailure, WrongDirectory

_CLUSTER_ID_SECONDS = 5.0
"""How long a missing cluster id is normal after the metadata log is known: controllers of this software send it."""
Ended = Callable[[StorageFailure | DiskFull], None]
OpenDirectories = Callable[[str, BrokerEvents, Ended], DataDirectories]
"""Opens the directories for a cluster id; called once, when the cluster id is known. `Ended`: see `DataDirectories`."""


class HostedBroker(NoRole):
    """The broker of a process. `cluster_id`: returns the id of the cluster, None while it is unknown. `controllers` and `brokers`: connections
    to controllers and brokers. `refuse`: makes the answer to a forwarded request that no controller has answered. `incarnation_id`: the id
    of this process.
    """

    def __init__(
        self,
        config: NodeConfig,
        replica: MetadataReplica,
        cluster_id: Callable[[], str | None],
        open_directories: OpenDirectories,
        controllers: Peers,
        brokers: Peers,
        owner: BrokerOwner,
        refuse: Refuse,
        incarnation_id: UUID,
    ) -> None:
        self._incarnation_id = incarnation_id
        assert config.broker is not None
        self._config = config
        self._broker = config.broker
        self._static = {
            **config.controller.settings.static_configs,
            **config.broker.static_configs,
        }
        self._replica = replica
        self._cluster_id = cluster_id
        self._open_directories = open_directories
        self._brokers = brokers
        self._owner = owner
        self._refuse = refuse
        self._loop = asyncio.get_running_loop()
        self._events = BrokerEvents()
        self._channel = ControllerChannel(
            replica, controllers, self._loop.call_soon, config.timeouts.request_timeout_ms
        )
        self._directories: DataDirectories | None = None
        self._replicas: AssignedReplicas | None = None
        self._lifecycle: Lifecycle | None = None
        self._groups: GroupCoordinators | None = None
        self._api: BrokerApi | None = None
        self._applied_offset = -1
        self._is_scheduled = False
        self._closed = False
        self._cluster_id_timer: asyncio.TimerHandle | None = None

    # -- the role of the partition

    def progressed(self) -> None:
        """See `PartitionRole`."""
        self._update_soon()

    def image_changed(self) -> None:
        """See `PartitionRole`."""
        self._update_soon()

    # -- for the process

    def handle(self, inbound: InboundRequest) -> None:
        """Handle a request of a listener; listeners are open only when the replicas are created."""
        assert self._api is not None, "the listeners are opened when the broker is ready"
        # The log's directory is offline now. The client repeats the request on another connection.
        inbound.ends_on(StorageFailure, DiskFull)
        try:
            self._api.handle(inbound)
        except (StorageFailure, DiskFull):
            inbound.leave_unanswered(failed=True)

    def leave(self, left: Callable[[], None]) -> None:
        """Request a controlled shutdown. `left` is called when it is completed, or at once if the broker has not begun to register."""
        if self._lifecycle is None:
            self._loop.call_soon(left)
        else:
            self._lifecycle.leave(left)

    def close(self, *, cleanly: bool) -> None:
        """Stop all replicas and close their logs. Raises StorageFailure or DiskFull."""
        self._closed = True
        epoch = None
        if self._lifecycle is not None:
            epoch = self._lifecycle.broker_epoch if cleanly else None
            self._lifecycle.close()
        if self._api is not None:
            self._api.close()
        if self._groups is not None:
            self._groups.close()
        if self._replicas is not None:
            self._replicas.close()
        if self._directories is not None:
            self._directories.close(epoch)

    # -- internals

    def _update_soon(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._update)

    def _update(self) -> None:
        self._is_scheduled = False
        if self._closed:
            return
        try:
            if self._lifecycle is None:
                self._begin()
            elif self._replicas is None:
                self._join(self._lifecycle)
            elif self._api is not None:
                self._apply(self._replicas)
        except (StorageFailure, DiskFull) as failure:
            self._owner.storage_failed(failure)

    def _begin(self) -> None:
        """Open the directory and register, if the cluster id is known and the metadata log has been read to its end."""
        replica, cluster_id = self._replica, self._cluster_id()
        if not replica.knows_commits():
            return
        if cluster_id is None:
            if self._cluster_id_timer is None:
                self._cluster_id_timer = self._loop.call_later(
                    _CLUSTER_ID_SECONDS, self._miss_cluster_id
                )
            return
        committed = replica.committed
        if committed.end_offset < replica.high_watermark or not committed.end_offset:
            return
        if not self._owner.may_register(committed.image):
            return
        level = committed.image.features.metadata_version
        if len(self._broker.log_dirs) > 1 and level < DIRECTORIES_LEVEL:
            self._owner.wrong_configuration(
                f"log.dirs has {len(self._broker.log_dirs)} directories, which needs metadata.version"
                f" {METADATA_VERSION_NAMES[DIRECTORIES_LEVEL]} or later; the cluster has {METADATA_VERSION_NAMES.get(level, level)}"
            )
            self._closed = True
            return
        try:
            self._directories = self._open_directories(
                cluster_id, self._events, self._owner.storage_failed
            )
        except WrongDirectory as error:
            self._owner.wrong_directory(str(error))
            return
        self._lifecycle = self._make_lifecycle(self._directories)
        self._directories.watch(lambda _: self._directory_failed())
        self._lifecycle.start(cluster_id)

    def _miss_cluster_id(self) -> None:
        if self._cluster_id() is None and not self._closed:
            self._events.no_cluster_id()

    def _directory_failed(self) -> None:
        assert self._lifecycle is not None
        self._lifecycle.directory_failed()

    def _cordoned_ids(self) -> tuple[UUID, ...] | None:
        replicas = self._replicas
        if replicas is None:
            return None
        level = replicas.image.features.metadata_version
        return (
            replicas.cordoned_ids(replicas.image) if level >= CORDONED_DIRECTORIES_LEVEL else None
        )

    def _failure_unreported(self) -> None:
        assert self._directories is not None
        self._owner.failure_unreported(", ".join(self._directories.offline))

    def _join(self, lifecycle: Lifecycle) -> None:
        """Start the replicas, if this broker's registration is in the image.

        Before that, the image may show leaderships of the previous run. Continuing them is unsafe: if records that were not synced are
        lost, the broker would write other records at the same offsets in the same epoch.
        """
        committed, cluster_id = self._replica.committed, self._cluster_id()
        own = committed.image.brokers.get(self._config.node_id)
        if own is None or own.broker_epoch != lifecycle.broker_epoch:
            return
        assert self._directories is not None
        assert cluster_id is not None
        replicas = self._replicas = self._make_replicas(self._directories)

        def ended(ambiguous: AmbiguousReplica | None) -> None:
            if ambiguous is None:
                self._joined(replicas, committed.end_offset, cluster_id)
            else:
                self._refuse_logs(ambiguous)

        replicas.start(committed.image, ended)

    def _refuse_logs(self, error: AmbiguousReplica) -> None:
        self._owner.wrong_directory(
            f"two directories of log.dirs have a log of {error}, and the metadata names neither of them. Nothing was"
            " changed. Move the older one elsewhere, and restart the node"
        )
        self._replicas, self._closed = None, True

    def _joined(self, replicas: AssignedReplicas, end_offset: int, cluster_id: str) -> None:
        """All logs are open, and the first image is applied. Later ones have waited, and until now the heartbeats wanted the broker to be fenced."""
        if self._closed or self._directories is None or not self._directories.online:
            return
        assert self._lifecycle is not None
        self._applied_offset = end_offset - 1
        groups = self._groups = self._make_groups(replicas)
        groups.image_changed()
        # After the replicas, which began to watch before.
        self._directories.watch(lambda _: groups.replicas_changed())
        replicas.watch(groups.replicas_changed)
        self._api = self._make_api(replicas, cluster_id, self._directories, groups)
        self._owner.ready()
        self._lifecycle.image_applied()
        self._update_soon()

    def _apply(self, replicas: AssignedReplicas) -> None:
        committed = self._replica.committed
        image = committed.image
        if image is not replicas.image:
            replicas.apply(image)
            if self._groups is not None:
                self._groups.image_changed()
        self._applied_offset = committed.end_offset - 1
        if self._lifecycle is not None:
            self._lifecycle.image_applied()

    def _own(self) -> tuple[int, int]:
        assert self._lifecycle is not None
        return self._config.node_id, self._lifecycle.broker_epoch

    def _endpoint_of(self, broker_id: int) -> Endpoint | None:
        """The endpoint of another broker for this broker: its listener with the same name as this broker's first listener."""
        assert self._replicas is not None
        broker = self._replicas.image.brokers.get(broker_id)
        name = self._config.between_brokers.name
        if broker is None:
            return None
        for each in broker.end_points:
            if each.name == name:
                return Endpoint(each.name, each.host, each.port)
        return None

    def broker_at(self, host: str, port: int) -> int | None:
        """The id of the broker that has registered this address for the listener name of this broker's first listener; None if unknown."""
        if self._replicas is None:
            return None
        name = self._config.between_brokers.name
        for broker_id, broker in self._replicas.image.brokers.by_id.items():
            for each in broker.end_points:
                if (each.name, each.host, each.port) == (name, host, port):
                    return broker_id
        return None

    def _make_lifecycle(self, directories: DataDirectories) -> Lifecycle:
        listeners = tuple(
            RegisteredListener(
                name=each.name,
                host=each.advertised.host,
                port=each.advertised.port,
                security_protocol=each.protocol.id,
            )
            for each in self._config.broker_listeners
        )
        topics, online = self._replica.committed.image.topics, directories.online_ids
        is_complete = not lacks_directory(self._config.node_id, topics, online)
        own = registration(
            self._config.node_id,
            self._broker.rack,
            listeners,
            online,
            directories.previous_broker_epoch if is_complete else NO_EPOCH,
            self._incarnation_id,
        )
        return Lifecycle(
            own,
            self._channel,
            self._events,
            BrokerState(
                applied_offset=lambda: self._applied_offset,
                failed_ids=lambda: directories.failed_ids,
                cordoned_ids=self._cordoned_ids,
            ),
            LifecycleCallbacks(
                registered=self._update_soon,
                superseded=self._owner.superseded,
                failure_unreported=self._failure_unreported,
            ),
            interval_ms=self._broker.heartbeat_interval_ms,
            failure_timeout_ms=self._broker.directory_failure_timeout_ms,
        )

    def _make_replicas(self, directories: DataDirectories) -> AssignedReplicas:
        config = self._broker
        values = TopicValues(
            self._config.node_id, self._static, config.lag_time_max_ms, config.lag_max_bytes
        )
        return AssignedReplicas(
            self._config.node_id,
            directories,
            values,
            Fetchers(self._brokers, config, self._own, self._endpoint_of, self._events),
            IsrRequests(self._channel, self._own),
            DirectoryAssignments(self._channel, self._own),
            self._events,
            Intervals(
                lag_time_max_ms=config.lag_time_max_ms,
                retention_ms=config.retention_check_ms,
                producers_ms=config.producer_check_ms,
                syncs_ms=values.sync_check_ms,
            ),
        )

    def _make_groups(self, replicas: AssignedReplicas) -> GroupCoordinators:
        config = self._broker.groups
        return GroupCoordinators(
            replicas,
            config.settings,
            config.commit_timeout_ms,
            self._events,
        )

    def _make_api(
        self,
        replicas: AssignedReplicas,
        cluster_id: str,
        directories: DataDirectories,
        groups: GroupCoordinators,
    ) -> BrokerApi:
        def image() -> ClusterImage:
            return replicas.image

        metadata = MetadataApi(
            self._config.node_id,
            image,
            lambda: cluster_id,
            lambda: self._applied_offset,
            replicas.may_lead,
        )
        transactions = TransactionCoordinators(
            self._config.node_id, image, self._endpoint_of, self._brokers
        )
        return BrokerApi(
            self._config.node_id,
            replicas,
            metadata,
            Forwarding(self._channel, self._refuse),
            ProducerIds(self._channel, self._own),
            self._static,
            directories,
            CoordinatorLookup(
                image,
                metadata.endpoint_to,
                OffsetsTopicCreation(self._channel, self._broker.groups, self._events),
                transactions,
            ),
            GroupApi(replicas, groups),
            TransactionVerification(transactions, self._brokers),
            self._owner.guard_of_broker(),
        )
