"""The running node: replica, listeners and disk watch put together, until it halts.

Owns the order of start and stop. `run` returns the exit code, or the process has ended before.
"""

import asyncio
import random
import signal
import socket
import time
from datetime import UTC, datetime

import structlog

from quorum_node.exit_codes import ExitCode, TerminationReason
from quorum_node.raft.config import RaftConfig
from quorum_node.raft.log_state import LogState
from quorum_node.raft.outputs import Halt, HaltReason, VotersChanged
from quorum_node.raft.replica import Replica
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.records.snapshot_id import NO_SNAPSHOT
from quorum_node.server.admin.app import create_app
from quorum_node.server.admin.forwarding import Forwarder
from quorum_node.server.admin.http_server import AdminServer, bind
from quorum_node.server.admin.node_view import NodeView
from quorum_node.server.config import ADMIN_LISTENER, CONTROLLER_LISTENER, NodeConfig
from quorum_node.server.config_api import ConfigApi
from quorum_node.server.config_values import ConfigError
from quorum_node.server.disk_watch import DiskWatch
from quorum_node.server.gauges import gauges_of_node, gauges_of_replica, names_of_peers
from quorum_node.server.kafka_api import KafkaApi
from quorum_node.server.listener import KafkaListener
from quorum_node.server.metrics import STEP_SECONDS, Metrics
from quorum_node.server.node_events import NodeEvents
from quorum_node.server.peers import PeerPool
from quorum_node.server.replica_host import ReplicaHost
from quorum_node.server.startup import is_founder, other_servers
from quorum_node.server.termination import Termination, exit_now, guard_exit
from quorum_node.server.wire.partitions import METADATA_PARTITION
from quorum_node.storage.directory import OpenDirectory
from quorum_node.storage.disk_reserve import DiskReserve
from quorum_node.storage.errors import DiskFull, StorageFailure, WrongDirectory

_LOG = structlog.get_logger("quorum_node")
_LAST_SENDS_SECONDS = 0.2
"""How long a failed replica may take to tell the others that its epoch is over."""
_SHUTDOWN_SECONDS = 10.0
_DRAIN_SECONDS = 0.5
_POLL_SECONDS = 0.005

_REASONS = {
    HaltReason.STORAGE_FAILED: TerminationReason.STORAGE_FAILED,
    HaltReason.CORRUPTION: TerminationReason.STORAGE_FAILED,
    HaltReason.DISK_FULL: TerminationReason.DISK_FULL,
    HaltReason.IDENTITY_MISMATCH: TerminationReason.IDENTITY_MISMATCH,
}


class NodeProcess:
    """One node. Made and run inside the event loop."""

    def __init__(
        self,
        config: NodeConfig,
        directory: OpenDirectory,
        token: str | None,
        termination: Termination,
    ) -> None:
        self._config = config
        self._directory = directory
        self._termination = termination
        self._loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[ExitCode] = self._loop.create_future()
        self._metrics = Metrics()
        self._events = NodeEvents()
        self._events.on_halt = self._on_halt
        self._events.on_voters = self._on_voters
        self._peers = PeerPool(
            f"node-{config.node_id}",
            self._metrics,
            partitions=1,
            reconnect_backoff_ms=config.timeouts.retry_backoff_ms,
            on_malformed=self._events.malformed_peer,
        )
        self._host = ReplicaHost(
            _replica(config, directory),
            directory.log,
            directory.state_file,
            self._metrics,
            self._events,
            self._peers,
            partition=0,
        )
        self._reserve = DiskReserve(config.data_dir, config.reserve_bytes)
        self._disk_watch = DiskWatch(config.data_dir, self._reserve, self._host)
        configs = ConfigApi(self._host.appends, self._host.reads, self._host.applier.image)
        api = KafkaApi(
            {METADATA_PARTITION: self._host},
            configs,
            membership_allowed=config.membership_on_controller_listener,
        )
        self._listener = KafkaListener(
            api.handle, self._metrics, config.max_request_bytes, self._events.malformed_client
        )
        self._metrics.gauges = gauges_of_node(self._listener, self._reserve)
        self._metrics.partition(0).gauges = gauges_of_replica(self._host)
        self._metrics.label_text = names_of_peers(self._host)
        self._forwarder = Forwarder()
        self._admin = AdminServer(
            create_app(self._node_view(token)), _bind_admin(config), self._metrics
        )

    async def run(self) -> ExitCode:
        """Serve until the replica halts. Raises ConfigError when a listener can't be bound."""
        address = self._config.listener
        try:
            await self._listener.start(address.host.strip("[]"), address.port)
        except OSError as error:
            raise ConfigError(f"listeners={address}: can't be bound: {error}") from error
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._shutdown)
        self._admin.start()
        self._disk_watch.start()
        self._step_metrics()
        self._host.start()
        key = ReplicaKey(self._config.node_id, self._directory.meta.directory_id)
        _LOG.info(
            f"replica {key} serves {address} and {self._config.admin_listener}",
            logEndOffset=self._directory.log.end_offset,
        )
        code = await self._stopped
        await self._stop()
        return code

    def _node_view(self, token: str | None) -> NodeView:
        return NodeView(
            host=self._host,
            metrics=self._metrics,
            reserve=self._reserve,
            forwarder=self._forwarder,
            token=token,
            fetch_timeout_ms=self._config.timeouts.fetch_timeout_ms,
            started_at=datetime.now(UTC),
            endpoints=_own_endpoints(self._config),
        )

    def _step_metrics(self) -> None:
        self._loop.call_later(STEP_SECONDS, self._step_metrics)
        self._metrics.step()

    def _shutdown(self) -> None:
        """SIGTERM: hand over, then stop; a second signal changes nothing."""
        _LOG.info("asked to stop")
        self._loop.call_later(_SHUTDOWN_SECONDS, self._stop_waiting)
        self._host.request_shutdown()

    def _stop_waiting(self) -> None:
        if not self._stopped.done():
            _LOG.warning("the handover did not finish in time")
            self._stopped.set_result(ExitCode.OK)

    def _on_halt(self, halt: Halt) -> None:
        if halt.reason is HaltReason.SHUTDOWN:
            if not self._stopped.done():
                self._stopped.set_result(ExitCode.OK)
            return
        reason = _REASONS[halt.reason]
        guard_exit(reason.exit_code)
        # What was put out before the halt (EndQuorumEpoch) is still in the loop's hands.
        self._loop.call_later(_POLL_SECONDS, self._die, reason, halt.detail)

    def _die(self, reason: TerminationReason, message: str) -> None:
        code = self._termination.record(reason, message)
        deadline = time.monotonic() + _LAST_SENDS_SECONDS

        def exit_when_told() -> None:
            if self._peers.in_flight == 0 or time.monotonic() > deadline:
                exit_now(code)
            self._loop.call_later(_POLL_SECONDS, exit_when_told)

        exit_when_told()

    def _on_voters(self, event: VotersChanged) -> None:
        cluster_id = self._host.describe().cluster_id
        if not event.committed or cluster_id in (None, self._directory.meta.cluster_id):
            return
        assert cluster_id is not None
        try:
            self._directory.remember_cluster_id(cluster_id)
        except WrongDirectory as error:
            self._die(TerminationReason.IDENTITY_MISMATCH, str(error))
        except (StorageFailure, DiskFull) as error:
            self._host.fail_storage(error)

    async def _stop(self) -> None:
        """Graceful: let the last answers leave, make the log durable, close."""
        self._disk_watch.stop()
        await self._listener.close(_DRAIN_SECONDS)
        self._host.close()
        self._peers.close()
        await self._admin.stop()
        await self._forwarder.close()
        try:
            self._directory.log.flush()
        except (StorageFailure, DiskFull) as error:
            self._die(TerminationReason.STORAGE_FAILED, str(error))
            await asyncio.sleep(_SHUTDOWN_SECONDS)
        self._directory.log.close()


def _replica(config: NodeConfig, directory: OpenDirectory) -> Replica:
    formation, timeouts, meta = config.formation, config.timeouts, directory.meta
    log = directory.log
    raft_config = RaftConfig(
        endpoints=_own_endpoints(config),
        bootstrap=tuple(
            Endpoint(CONTROLLER_LISTENER, server.host, server.port)
            for server in other_servers(config)
        ),
        cluster_id=meta.cluster_id or config.cluster_id,
        founder=is_founder(config, meta.directory_id),
        initial_voters=formation.initial_voters if formation else 1,
        witness=config.witness,
        election_timeout_ms=timeouts.election_timeout_ms,
        fetch_timeout_ms=timeouts.fetch_timeout_ms,
        election_backoff_max_ms=timeouts.election_backoff_max_ms,
        request_timeout_ms=timeouts.request_timeout_ms,
        retry_backoff_ms=timeouts.retry_backoff_ms,
        retry_backoff_max_ms=timeouts.retry_backoff_max_ms,
    )
    log_state = LogState(
        NO_SNAPSHOT, log.end_offset, tuple(log.epoch_starts), tuple(log.control_batches)
    )
    return Replica(
        raft_config,
        ReplicaKey(meta.node_id, meta.directory_id),
        directory.state,
        log_state,
        random.Random().random,
        lambda: time.time_ns() // 1_000_000,
    )


def _own_endpoints(config: NodeConfig) -> tuple[Endpoint, ...]:
    controller, admin = config.advertised, config.admin_advertised
    return (
        Endpoint(CONTROLLER_LISTENER, controller.host, controller.port),
        Endpoint(ADMIN_LISTENER, admin.host, admin.port),
    )


def _bind_admin(config: NodeConfig) -> socket.socket:
    address = config.admin_listener
    try:
        return bind(address.host, address.port)
    except OSError as error:
        raise ConfigError(f"admin.listener={address}: can't be bound: {error}") from error
