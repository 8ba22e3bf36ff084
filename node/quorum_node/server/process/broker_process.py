"""A broker's process: an observer of the metadata log, with the broker's role on it.

Owns the differences from a member of the quorum: the ports open once the broker is ready, and a stop first asks the active controller to
move leaderships to other brokers.
"""

import math
from collections.abc import Callable, Mapping

from quorum_node.controller.decision import Decision
from quorum_node.controller.view import NOBODY, UNRESTRICTED, Caller, Rights, View
from quorum_node.exit_codes import TerminationReason
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.protocol.api import Api
from quorum_node.protocol.broker_apis import BROKER_APIS
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.errors import RaftError
from quorum_node.schema.schema import Message
from quorum_node.security.rights.broker_table import BROKER_TABLE
from quorum_node.server.broker.opening import open_data_directories
from quorum_node.server.broker.role import HostedBroker
from quorum_node.server.controller.controller_api import ControllerApi
from quorum_node.server.controller.port import Decider
from quorum_node.server.ending.fail_stop import watch_task
from quorum_node.server.listener.port import Handler
from quorum_node.server.partition.led_replica import LedReplica
from quorum_node.server.partition.port import PartitionRole, TooLarge
from quorum_node.server.partition.replica_host import ReplicaHost
from quorum_node.server.peers.connection import LARGEST_RESPONSE_BYTES, MAX_RESPONSE_BYTES
from quorum_node.server.peers.dialling import Dialling
from quorum_node.server.peers.pool import PeerPool
from quorum_node.server.peers.port import Peers
from quorum_node.server.process.hanging_stop import within
from quorum_node.server.process.node_process import NodeProcess
from quorum_node.server.rights.port import Guard
from quorum_node.server.wire.refusals import refuse_request
from quorum_node.storage.errors import DiskFull, StorageFailure

CLOSE_SECONDS = 600.0
"""In seconds: limit for the clean close of all logs. Each is synced, and its indexes and producers are written; there may be thousands."""


class NeverActive:
    """The `Decider` of a node that is never the active controller."""

    is_held_back = False

    def view(self, caller: Caller = NOBODY, rights: Rights = UNRESTRICTED) -> View | None:
        """See `Decider`."""
        return None

    def carry_out(
        self, decision: Decision, settled: Callable[[RaftError | TooLarge | None], None]
    ) -> None:
        """See `Decider`."""
        raise AssertionError("only the active controller decides")


class BrokerProcess(NodeProcess):
    """See the module."""

    _apis: Mapping[int, Api] = BROKER_APIS
    _api_table = BROKER_TABLE

    def _make_role(self, host: ReplicaHost) -> PartitionRole:
        config = self._config
        assert config.broker is not None
        log_dirs, metadata_dir, node_id = config.broker.log_dirs, config.data_dir, config.node_id
        self._between_brokers = self._pool(
            f"broker-{node_id}-fetcher",
            self._secured.dial_brokers(self._broker_at),
            LARGEST_RESPONSE_BYTES,
        )
        self._broker = HostedBroker(
            config,
            LedReplica(host),
            cluster_id=lambda: host.describe().cluster_id,
            open_directories=lambda cluster_id, events, ended: open_data_directories(
                log_dirs, metadata_dir, node_id, cluster_id, events, ended
            ),
            controllers=self._to_controllers(host),
            brokers=self._between_brokers,
            owner=self,
            refuse=refuse_forwarded,
            incarnation_id=self._incarnation_id,
        )
        self._is_leaving = False
        return self._broker

    def _pool(
        self,
        client_id: str,
        dialling: Dialling | None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> PeerPool:
        return PeerPool(
            client_id,
            self._metrics,
            partitions=1,
            reconnect_backoff_ms=self._config.timeouts.retry_backoff_ms,
            on_malformed=lambda peer, why: None,
            dialling=dialling,
            max_response_bytes=max_response_bytes,
        )

    def _to_controllers(self, host: ReplicaHost) -> Peers:
        """Connections for the broker's requests to the active controller."""
        return host.peers

    def _handler(self) -> Handler:
        return self._broker.handle

    def _decider(self) -> Decider:
        return NeverActive()

    async def _open_listeners(self) -> None:
        """The listeners open later, when the broker is ready."""

    def _names_of_broker(self) -> tuple[str, ...]:
        return tuple(each.name for each in self._config.broker_listeners)

    def _shutdown(self) -> None:
        """SIGTERM: move leaderships first. A second signal, or a timeout, stops the broker anyway."""
        assert self._config.broker is not None
        if self._is_leaving:
            super()._shutdown()
            return
        self._is_leaving = True
        timer = self._loop.call_later(
            self._config.broker.shutdown_timeout_ms / 1000, super()._shutdown
        )

        def left() -> None:
            timer.cancel()
            super(BrokerProcess, self)._shutdown()

        self._broker.leave(left)

    def _close_role(self) -> None:
        try:
            with within(CLOSE_SECONDS):
                self._broker.close(cleanly=True)
        except (StorageFailure, DiskFull) as failure:
            self.storage_failed(failure)
        self._between_brokers.close()

    def _broker_at(self, host: str, port: int) -> int | None:
        return self._broker.broker_at(host, port)

    def _renew_connections(self, *, proven_before: float = math.inf) -> None:
        super()._renew_connections(proven_before=proven_before)
        self._between_brokers.renew(proven_before=proven_before)

    # -- from the broker

    def may_register(self, image: ClusterImage) -> bool:
        """See `BrokerOwner`."""
        return True

    def guard_of_broker(self) -> Guard | None:
        """See `BrokerOwner`."""
        return self._guard

    def ready(self) -> None:
        """See `BrokerOwner`."""
        watch_task(self._loop.create_task(self._listeners.start(self._names_of_broker())))

    def storage_failed(self, failure: StorageFailure | DiskFull) -> None:
        """See `BrokerOwner`."""
        self._hosted.fail_storage(failure)

    def failure_unreported(self, path: str) -> None:
        """See `BrokerOwner`."""
        why = (
            f"log directory {path} failed, and no controller could be informed within log.dir.failure.timeout.ms. Check"
            " the network to the controllers, and restart the broker: it starts without this directory"
        )
        self._die(TerminationReason.STORAGE_FAILED, why, latch=False)

    def wrong_directory(self, why: str) -> None:
        """See `BrokerOwner`."""
        self._die(TerminationReason.IDENTITY_MISMATCH, why)

    def wrong_configuration(self, why: str) -> None:
        """See `BrokerOwner`."""
        self._die(TerminationReason.BAD_CONFIGURATION, why)

    def superseded(self) -> None:
        """See `BrokerOwner`."""
        self._die(
            TerminationReason.IDENTITY_MISMATCH,
            f"another process has registered as broker {self._config.node_id}: two processes have the same node.id."
            " Stop one of them",
        )


def refuse_forwarded(body: Message, error: ErrorCode, text: str) -> Message:
    """The answer to a forwarded request that no controller has answered."""
    if ControllerApi.serves(body):
        return ControllerApi.refuse(body, error, text)
    return refuse_request(body, error, text)
