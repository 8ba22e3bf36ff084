"""A real node without its listeners, in the loop of a test: replicas on a disk, controller, Kafka API and admin API.

Owns building it, like `server/process/node_process.py`. The tests send the requests.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from fastapi import FastAPI

from quorum_node.configuration.node_config import NodeConfig, check_config
from quorum_node.protocol.api import Api
from quorum_node.protocol.frames import (
    SIZE_BYTES,
    Request,
    decode_request,
    decode_response,
    encode_request,
)
from quorum_node.raft.outputs import Halt, VotersChanged
from quorum_node.records.identity import uuid_text
from quorum_node.records.metadata import encode_metadata
from quorum_node.schema.encoder import FieldNotInVersion
from quorum_node.schema.schema import Message
from quorum_node.security.caller import Caller
from quorum_node.security.rights.api_table import CONTROLLER_TABLE
from quorum_node.security.rights.request_authorizer import Asked
from quorum_node.server.admin.app import create_app
from quorum_node.server.admin.node_view import NodeView
from quorum_node.server.controller.hosting import HostedController
from quorum_node.server.listener.large_messages import LargeMessages
from quorum_node.server.listener.port import CALLER, InboundRequest
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.observing.node_events import MalformedBytes
from quorum_node.server.partition.led_replica import LedReplica
from quorum_node.server.partition.port import AppendOutcome, Committed, HostedPartition
from quorum_node.server.partition.replica_host import ReplicaHost
from quorum_node.server.process.hosted_partitions import HostedPartitions
from quorum_node.server.requests.config_api import ConfigApi
from quorum_node.server.requests.kafka_api import KafkaApi
from quorum_node.server.rights.guard_factory import access_settings, make_guard
from quorum_node.server.starting.replica_building import own_endpoints
from quorum_node.server.wire.partitions import metadata_partition
from quorum_node.storage.directory import OpenDirectory, format_directory, open_directory
from quorum_node.storage.disk_reserve import DiskReserve
from quorum_node.storage.failure_latch import FailureLatch
from quorum_node.storage.meta_properties import MetaProperties
from support.metadata_records import config

NODE_ID = 101
ME = UUID(int=9)
NOTHING: Mapping[str, str] = {}


class Node:
    """A founder that leads both of its partitions."""

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] = NOTHING,
        bound_listeners: frozenset[str] = frozenset(),
    ) -> None:
        self.config = config_of(directory, properties)
        self.directory = opened(directory)
        self.metrics = Metrics()
        self.reserve = DiskReserve(directory, 0)
        self.hosted = HostedPartitions(
            self.config,
            self.directory,
            self.metrics,
            MalformedBytes(),
            self.reserve,
            self,
            self._make_controller,
        )
        self._apps: dict[str | None, FastAPI] = {}
        self.halts: list[Halt] = []
        self.has_halted = asyncio.Event()
        first = self.hosted.first
        settings = replace(
            access_settings(self.config, CONTROLLER_TABLE), bound_listeners=bound_listeners
        )
        self.guard = make_guard(settings, LedReplica(first), self.hosted.voter_ids, self.metrics)
        self.api = KafkaApi(
            {metadata_partition(host.partition): host for host in self.hosted.hosts},
            ConfigApi(first, NODE_ID, self.config.controller.settings),
            self.controller,
            membership_allowed=self.config.membership_on_controller_listener,
            guard=self.guard,
        )

    def _make_controller(self, host: ReplicaHost) -> HostedController:
        metrics = self.metrics.partition(host.partition)
        self.controller = HostedController(
            LedReplica(host), host.snapshotter, host.peers, metrics, self.config
        )
        return self.controller

    def broken(self, error: BaseException) -> None:
        """See `ProcessPort`."""
        raise error

    def voters_changed(self, host: HostedPartition, event: VotersChanged) -> None:
        """See `ProcessPort`."""
        if self.guard is not None:
            self.guard.voters_changed()

    def halted(self, halt: Halt) -> None:
        """See `ProcessPort`."""
        self.halts.append(halt)
        self.has_halted.set()

    async def start(self) -> None:
        """Start, and wait until both partitions accept writes."""
        self.hosted.start()
        for number in range(2):
            for _ in range(1000):  # refused until the founder's own voters record is committed
                outcome = await self.append(number, "first", str(number))
                if isinstance(outcome, Committed):
                    break
                await asyncio.sleep(0.01)
            assert isinstance(outcome, Committed), outcome

    async def append(self, number: int, name: str, value: str) -> AppendOutcome:
        """Append one config value; returns the outcome."""
        done: asyncio.Future[AppendOutcome] = asyncio.get_running_loop().create_future()
        record = encode_metadata(config(2, "t", name, value))
        self.hosted.hosts[number].append((record,), done.set_result)
        return await asyncio.wait_for(done, 10)

    def close(self) -> None:
        """Close everything; pages of the log that are not written yet stay with the kernel."""
        self.controller.close()
        self.hosted.close()
        for partition in self.directory.partitions:
            partition.log.close()

    async def ask(self, caller: Caller, api: Api, body: Message, version: int | None = None) -> Any:
        """Send one request on a connection of that caller; returns its answer as encoded on the wire."""
        return await OneConnection(caller).ask(self.api, api, body, version)

    def client(self, token: str | None = None, caller: Caller | None = None) -> httpx.AsyncClient:
        """The admin API of this node; with a token it is required. `caller`: the one that the connection has authenticated."""
        if token not in self._apps:
            self._apps[token] = create_app(self._view(token))
        app = self._apps[token]

        async def proved(scope: Any, receive: Any, send: Any) -> None:
            if caller is not None:
                scope[CALLER] = caller
            await app(scope, receive, send)

        transport = httpx.ASGITransport(proved)
        return httpx.AsyncClient(transport=transport, base_url="http://node")

    def _view(self, token: str | None) -> NodeView:
        return NodeView(
            hosts=self.hosted.hosts,
            controller=self.controller.controller,
            metrics=self.metrics,
            reserve=self.reserve,
            token=token,
            guard=self.guard,
            fetch_timeout_ms=2000,
            started_at=datetime.now(UTC),
            endpoints=own_endpoints(self.config),
        )


class OneConnection:
    """`Answering` in place of a socket; keeps the answers. `thread`: for work that takes long; it is done at once without it."""

    def __init__(self, caller: Caller, thread: LargeMessages | None = None) -> None:
        self.caller = caller
        self._thread = thread
        self.decided: dict[object, Asked] = {}
        self._written = asyncio.Event()
        self.pieces = 0

    def write_ready(self, added_bytes: int) -> None:
        """See `Answering`."""
        self._written.set()

    async def written(self) -> None:
        """Wait until something more can be written."""
        await self._written.wait()
        self._written.clear()

    def unencodable(self, request: Request, error: FieldNotInVersion) -> None:
        """See `Answering`."""
        raise error

    def in_pieces(self, work: Iterator[object]) -> None:
        """See `Answering`. All pieces at once; their number is kept."""
        self.pieces = sum(1 for _ in work)

    @property
    def owner(self) -> object:
        """See `Answering`."""
        return self

    def spent(self, seconds: float) -> None:
        """See `Answering`."""

    async def ask(self, to: KafkaApi, api: Api, body: Message, version: int | None) -> Any:
        """One request, encoded and decoded as on the wire, both ways."""
        version = api.max_version if version is None else version
        frame = encode_request(api, version, 1, "a client", body)[SIZE_BYTES:]
        inbound = InboundRequest(self, decode_request(frame), 0.0, len(frame), self._thread)
        self._written.clear()
        to.handle(inbound)
        await asyncio.wait_for(self._written.wait(), 10)
        assert inbound.encoded is not None
        return decode_response(api, version, b"".join(inbound.encoded)[SIZE_BYTES:])


def config_of(directory: Path, properties: Mapping[str, str] = NOTHING) -> NodeConfig:
    """Of a node that founds two partitions."""
    return check_config(
        {
            "node.id": str(NODE_ID),
            "advertised.listeners": "CONTROLLER://127.0.0.1:9093",
            "admin.advertised.listener": "http://127.0.0.1:8080",
            "metadata.log.dir": str(directory),
            "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
            "formation.founder.id": str(NODE_ID),
            "formation.founder.uuid": uuid_text(ME),
            "quorum.partitions": "2",
            **properties,
        }
    )


def opened(directory: Path) -> OpenDirectory:
    """A directory that was just formatted."""
    format_directory(directory, MetaProperties(NODE_ID, ME, "c", 2))
    return open_directory(
        directory,
        node_id=NODE_ID,
        cluster_id="c",
        segment_bytes=1 << 20,
        latch=FailureLatch(None),
        partitions=2,
    )


@asynccontextmanager
async def running_node(
    directory: Path,
    properties: Mapping[str, str] = NOTHING,
    bound_listeners: frozenset[str] = frozenset(),
) -> AsyncIterator[Node]:
    """A node that accepts writes. `bound_listeners`: see `AccessSettings`."""
    node = Node(directory, properties, bound_listeners)
    await node.start()
    try:
        yield node
    finally:
        node.close()
