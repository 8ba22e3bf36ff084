"""The running node: replicas, listeners and disk watch, until they halt.

Owns the order of start and stop. `run` returns the exit code, unless the process ends before.
"""

import asyncio
import math
import signal
import socket
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import structlog
from fastapi import FastAPI

from quorum_node.configuration.key import Key
from quorum_node.configuration.keys import listeners
from quorum_node.configuration.listener_config import Migration
from quorum_node.configuration.node_config import NodeConfig
from quorum_node.exit_codes import ExitCode, TerminationReason
from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.host_port import ListenerAddress
from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import APIS
from quorum_node.raft.outputs import Halt, HaltReason, VotersChanged
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.metadata import UserScramCredentialRecord
from quorum_node.security.rights.api_table import CONTROLLER_TABLE
from quorum_node.security.rights.needs import ApiTable
from quorum_node.server.admin.app import create_app
from quorum_node.server.admin.health_app import HealthApp
from quorum_node.server.admin.node_view import NodeView
from quorum_node.server.admin.token_file import TokenFile
from quorum_node.server.controller.hosting import HostedController
from quorum_node.server.controller.port import Decider
from quorum_node.server.disk.disk_watch import HANG_SECONDS
from quorum_node.server.ending.termination import Termination, exit_now, guard_exit, reason_of
from quorum_node.server.listener.http_server import AdminServer
from quorum_node.server.listener.kafka_listener import KafkaListeners, ServedApis
from quorum_node.server.listener.loop_work import LoopWork
from quorum_node.server.listener.port import Handler
from quorum_node.server.listener.refused_address import refused_address
from quorum_node.server.observing.metrics import STEP_SECONDS, Metrics
from quorum_node.server.observing.node_events import MalformedBytes
from quorum_node.server.partition.led_replica import LedReplica
from quorum_node.server.partition.port import HostedPartition, PartitionRole
from quorum_node.server.partition.replica_host import ReplicaHost
from quorum_node.server.process.codec_warmup import CodecWarmup
from quorum_node.server.process.file_limit import allow_connections
from quorum_node.server.process.gauges import gauges_of_node
from quorum_node.server.process.hanging_stop import within
from quorum_node.server.process.hosted_partitions import HostedPartitions
from quorum_node.server.process.secured_ports import secured_ports
from quorum_node.server.process.stored_credentials import CommittedCredentials
from quorum_node.server.requests.config_api import ConfigApi
from quorum_node.server.requests.kafka_api import KafkaApi
from quorum_node.server.rights.guard_factory import (
    access_settings,
    make_guard,
    warn_of_anonymous_members,
)
from quorum_node.server.starting.replica_building import own_endpoints
from quorum_node.server.starting.tls_loading import TlsOfPorts
from quorum_node.server.transport.sockets import bind
from quorum_node.server.wire.partitions import metadata_partition
from quorum_node.storage.directory import OpenDirectory
from quorum_node.storage.disk_reserve import DiskReserve
from quorum_node.storage.errors import DiskFull, StorageFailure, WrongDirectory

_LOG = structlog.get_logger("quorum_node")
_LAST_SENDS_SECONDS = 0.2
"""In seconds: how long a failed replica may take to inform the others of the end of its epoch."""
_SHUTDOWN_SECONDS = 10.0
_DRAIN_SECONDS = 0.5
_POLL_SECONDS = 0.005

_REASONS = {
    HaltReason.STORAGE_FAILED: TerminationReason.STORAGE_FAILED,
    HaltReason.CORRUPTION: TerminationReason.STORAGE_FAILED,
    HaltReason.DISK_FULL: TerminationReason.DISK_FULL,
    HaltReason.OUT_OF_RESOURCES: TerminationReason.OUT_OF_RESOURCES,
    HaltReason.IDENTITY_MISMATCH: TerminationReason.IDENTITY_MISMATCH,
}


class NodeProcess:
    """One node. Created and run inside the event loop."""

    def __init__(
        self,
        config: NodeConfig,
        directory: OpenDirectory,
        token: str | None,
        termination: Termination,
        tls: TlsOfPorts,
        credentials: tuple[UserScramCredentialRecord, ...] = (),
    ) -> None:
        self._first_credentials = credentials
        self._incarnation_id = fresh_uuid()
        self._config = config
        self._directory = directory
        self._termination = termination
        self._loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[ExitCode] = self._loop.create_future()
        self._metrics = Metrics()
        malformed = MalformedBytes()
        self._reserve = DiskReserve(config.data_dir, config.reserve_bytes)
        self._secured = secured_ports(config, tls, self._metrics, self._voter_at)
        self._hosted = HostedPartitions(
            config,
            directory,
            self._metrics,
            malformed,
            self._reserve,
            self,
            self._make_role,
            self._secured.dialling,
        )
        first = self._hosted.first
        self._guard = make_guard(
            access_settings(config, self._api_table),
            LedReplica(first),
            self._hosted.voter_ids,
            self._metrics,
        )
        warn_of_anonymous_members(config)
        work = LoopWork()
        self._listeners = KafkaListeners(
            config.listeners,
            ServedApis(self._handler(), self._apis),
            self._metrics,
            malformed.from_client,
            self._hosted.voter_ids,
            others=self._served_by_other_role(),
            authentications=self._secured.authentications,
            stored=CommittedCredentials(LedReplica(first)),
            work=work,
        )
        self._codecs = CodecWarmup()
        self._metrics.ask_at_scrape(gauges_of_node(self._listeners, self._reserve))
        app = create_app(self._node_view(token))
        self._admin = AdminServer(
            app,
            _bind(listeners.ADMIN, config.admin.address),
            self._metrics,
            config.admin.limits,
            self._secured.authentications.get(listeners.ADMIN_LISTENER),
            work,
        )
        self._health = self._make_health(app, work)

    def _make_health(self, app: FastAPI, work: LoopWork) -> AdminServer | None:
        config = self._config
        if config.health_listener is None:
            return None
        return AdminServer(
            # Callers that are configured with the clear-text port only still need the complete admin API there.
            HealthApp(app) if config.tls.migration is Migration.NONE else app,
            _bind(listeners.HEALTH, config.health_listener),
            self._metrics,
            config.admin.limits,
            work=work,
        )

    # -- the role of this node

    _apis: Mapping[int, Api] = APIS
    """The APIs of its Kafka ports, by key."""

    _api_table: ApiTable = CONTROLLER_TABLE
    """The rights that the requests at these ports need."""

    def _make_role(self, host: ReplicaHost) -> PartitionRole:
        """Create the role of the first partition's replica."""
        self._controller = HostedController(
            LedReplica(host),
            host.snapshotter,
            host.peers,
            self._metrics.partition(host.partition),
            self._config,
            self._first_credentials,
            self._incarnation_id,
        )
        return self._controller

    def _handler(self) -> Handler:
        """The handler of requests at the Kafka ports; called once the replicas exist."""
        config = self._config
        api = KafkaApi(
            {metadata_partition(host.partition): host for host in self._hosted.hosts},
            ConfigApi(self._hosted.first, config.node_id, config.controller.settings),
            self._controller,
            membership_allowed=config.membership_on_controller_listener,
            guard=self._guard,
        )
        return api.handle

    def _served_by_other_role(self) -> Mapping[str, ServedApis]:
        """What the listeners of another role than the first one serve, by the listener's name."""
        return {}

    def _decider(self) -> Decider:
        """The `Decider` of the admin API."""
        return self._controller.controller

    async def _open_listeners(self) -> None:
        """Called at the start of `run`. Raises ConfigError when a listener can't be bound."""
        await self._listeners.start()

    def _close_role(self) -> None:
        """Called first when the process stops cleanly."""
        self._controller.close()

    # -- start

    async def run(self) -> ExitCode:
        """Serve until the replica halts. Raises ConfigError when a listener can't be bound."""
        limits = (*(each.limits for each in self._config.listeners), self._config.admin.limits)
        has_logs = self._config.broker is not None
        allow_connections(sum(each.max_connections for each in limits), has_logs=has_logs)
        await self._open_listeners()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._shutdown)
        self._serve(self._admin, listeners.ADMIN, self._config.admin.address)
        if self._health is not None and self._config.health_listener is not None:
            self._serve(self._health, listeners.HEALTH, self._config.health_listener)
        self._secured.start(self._renew_connections)
        self._hosted.disk_watch.start()
        self._step_metrics()
        self._hosted.start()
        self._codecs.start()
        addresses = ", ".join(str(each.address) for each in self._config.listeners)
        key = ReplicaKey(self._config.node_id, self._directory.meta.directory_id)
        _LOG.info(
            f"replica {key} serves {addresses} and {self._config.admin.address}",
            partitions=len(self._hosted.hosts),
            logEndOffset=self._directory.first.log.end_offset,
        )
        code = await self._stopped
        await self._stop()
        # All is durable. The loop awaits threads when it is closed, also one that reads a file on a file system that hangs.
        guard_exit(code)
        return code

    def _renew_connections(self, *, proven_before: float = math.inf) -> None:
        """Replace the connections to others; see `PeerPool.renew`."""
        self._hosted.peers.renew(proven_before=proven_before)

    @staticmethod
    def _serve(server: AdminServer, key: Key[Any], address: ListenerAddress) -> None:
        try:
            server.start()
        except (
            OSError
        ) as error:  # if two sockets have bound the port, the first one that listens gets it
            raise refused_address(key.name, address, error) from error

    def _node_view(self, token: str | None) -> NodeView:
        path = self._config.admin_token_file
        return NodeView(
            hosts=self._hosted.hosts,
            controller=self._decider(),
            metrics=self._metrics,
            reserve=self._reserve,
            token=token,
            token_needs_tls=self._config.token_needs_tls,
            guard=self._guard,
            token_file=None if path is None or token is None else TokenFile(path, token),
            fetch_timeout_ms=self._config.timeouts.fetch_timeout_ms,
            started_at=datetime.now(UTC),
            endpoints=own_endpoints(self._config),
            scheme=self._scheme,
            tls=self._secured.describe,
            on_bug=self._termination.bug,
        )

    @property
    def _scheme(self) -> str:
        """The URL scheme in which the leader's address is given: one that every member supports during a migration."""
        migration = self._config.tls.migration
        return "http" if migration is Migration.ACCEPT else self._config.admin.address.name

    def _step_metrics(self) -> None:
        self._loop.call_later(STEP_SECONDS, self._step_metrics)
        self._metrics.step()

    def _shutdown(self) -> None:
        """SIGTERM or SIGINT: transfer leadership, then stop; a second signal changes nothing."""
        _LOG.info(
            "stopping after SIGTERM or SIGINT; leadership of the quorum, if this node has it, is transferred first"
        )
        self._loop.call_later(_SHUTDOWN_SECONDS, self._stop_waiting)
        self._hosted.request_shutdown()

    def _stop_waiting(self) -> None:
        if not self._stopped.done():
            _LOG.warning(
                f"leadership was not transferred within {_SHUTDOWN_SECONDS:g} s: the node stops without it, and the"
                " voters elect a leader"
            )
            self._stopped.set_result(ExitCode.OK)

    def _voter_at(self, host: str, port: int) -> int | None:
        return self._hosted.voter_at(host, port)

    # -- from the replicas

    def broken(self, error: BaseException) -> None:
        """See `ProcessPort`."""
        self._termination.bug(error)

    def halted(self, halt: Halt) -> None:
        """See `ProcessPort`."""
        if halt.reason is HaltReason.SHUTDOWN:
            if not self._stopped.done():
                self._stopped.set_result(ExitCode.OK)
            return
        reason = _REASONS[halt.reason]
        guard_exit(reason.exit_code)
        # Outputs before the halt (EndQuorumEpoch) are still queued in the loop.
        self._loop.call_later(_POLL_SECONDS, self._die, reason, halt.detail)

    def voters_changed(self, host: HostedPartition, event: VotersChanged) -> None:
        """See `ProcessPort`."""
        if self._guard is not None:
            self._guard.voters_changed()
        cluster_id = host.describe().cluster_id
        if not event.committed or cluster_id in (None, self._directory.meta.cluster_id):
            return
        assert cluster_id is not None
        try:
            self._directory.remember_cluster_id(cluster_id)
        except WrongDirectory as error:
            self._die(TerminationReason.IDENTITY_MISMATCH, str(error))
        except (StorageFailure, DiskFull) as error:
            self._hosted.fail_storage(error)

    # -- the end

    def _die(self, reason: TerminationReason, message: str, *, latch: bool = True) -> None:
        code = self._termination.record(reason, message, latch=latch)
        deadline = time.monotonic() + _LAST_SENDS_SECONDS

        def exit_when_requested() -> None:
            if self._hosted.peers.in_flight == 0 or time.monotonic() > deadline:
                exit_now(code)
            self._loop.call_later(_POLL_SECONDS, exit_when_requested)

        exit_when_requested()

    async def _stop(self) -> None:
        """Clean stop: send the last answers, make the log durable, close."""
        self._hosted.disk_watch.stop()
        self._codecs.stop()
        self._secured.stop()
        self._close_role()
        await self._listeners.close(_DRAIN_SECONDS)
        self._hosted.close()
        await self._admin.stop()
        if self._health is not None:
            await self._health.stop()
        with within(HANG_SECONDS):
            try:
                for host in self._hosted.hosts:
                    host.make_durable()
            except (StorageFailure, DiskFull) as error:
                self._die(reason_of(error), str(error))
                await asyncio.sleep(_SHUTDOWN_SECONDS)
            for partition in self._directory.partitions:
                partition.log.close()


def _bind(key: Key[Any], address: ListenerAddress) -> socket.socket:
    try:
        return bind(address.host, address.port)
    except OSError as error:
        raise refused_address(key.name, address, error) from error
