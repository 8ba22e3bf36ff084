"""All replicas of one broker in this process: real cores, logs and metadata. Other nodes never answer.

Runs in a loop, usually one with virtual time. Owns the wiring. The tests check the results.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from quorum_node.broker.batch import Batch
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import FetchPosition
from quorum_node.broker.placement import AmbiguousReplica
from quorum_node.broker.produced_batch import read_produced
from quorum_node.broker.producers import NO_GUARD
from quorum_node.configuration.broker_config import BrokerConfig
from quorum_node.configuration.node_config import check_config
from quorum_node.controller.topic_deletion import delete_topics
from quorum_node.controller.topics import create_topics
from quorum_node.protocol.api import Api
from quorum_node.protocol.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    PlacedDirectoryResult,
    PlacedPartitionResult,
    PlacedTopicResult,
)
from quorum_node.protocol.broker_apis import BROKER_APIS
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorum_node.protocol.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import SIZE_BYTES, decode_request, decode_response, encode_request
from quorum_node.raft.events import FailureReason
from quorum_node.raft.messages import OutboundRequest
from quorum_node.records.identity import Endpoint
from quorum_node.schema.schema import Message
from quorum_node.security.caller import Caller
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.data_directories import DataDirectories, DirectoryRecord
from quorum_node.server.broker.data_directory import OpenDataDirectory
from quorum_node.server.broker.directory_assignments import DirectoryAssignments
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.fetchers import Fetchers
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.isr_requests import IsrRequests
from quorum_node.server.broker.replica_timers import Intervals
from quorum_node.server.broker.topic_values import TopicValues
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.peers.port import PeerListener
from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.file_system import POSIX, FileSystem
from support.awaited_threads import AwaitedThreads
from support.controlled_cluster import ControlledCluster, assigned
from support.hosted_node import OneConnection

ME, OTHER = 101, 102


class SilentPeers:
    """Other nodes: what they were asked, and never an answer unless the test gives one."""

    def __init__(self) -> None:
        self.asked: list[tuple[Message, Callable[[Message | FailureReason], None]]] = []

    def attach(self, partition: int, listener: PeerListener) -> None: ...

    def send(
        self,
        partition: int,
        correlation: int,
        destination: Endpoint,
        request: OutboundRequest,
        timeout_ms: float,
    ) -> None: ...

    def ask(
        self,
        destination: Endpoint,
        api: Api,
        body: Message,
        done: Callable[[Message | FailureReason], None],
        *,
        timeout_ms: float,
    ) -> None:
        self.asked.append((body, done))

    def warm(self, destination: Endpoint) -> None: ...

    def connected_addresses(self) -> set[tuple[str, int]]:
        return set()


class SilentController:
    """The active controller: what it was asked, and never an answer unless the test gives one."""

    def __init__(self) -> None:
        self.asked: list[tuple[Message, Callable[[Message | FailureReason], None]]] = []

    def ask(
        self,
        api: Api,
        body: Message,
        answered: Callable[[Message | FailureReason], None],
        *,
        timeout_ms: float | None = None,
    ) -> None:
        self.asked.append((body, answered))


def broker_config() -> BrokerConfig:
    """Defaults."""
    config = check_config(
        {
            "process.roles": "broker",
            "unstable.broker.role.enable": "true",
            "node.id": str(ME),
            "listeners": "PLAINTEXT://b:9092",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "c:9093",
            "metadata.log.dir": "/var/lib/broker/metadata",
            "log.dirs": "/var/lib/broker/logs",
            "admin.listener": "http://127.0.0.1:8081",
        }
    ).broker
    assert config is not None
    return config


def position_of(follower: HostedReplica) -> FetchPosition:
    """Of its next fetch."""
    position = follower.core.fetch_position
    assert position is not None
    return position


def accepted(
    request: Message, *, error: ErrorCode = ErrorCode.NONE
) -> AssignReplicasToDirsResponse:
    """The answer to AssignReplicasToDirs, with `error` for every replica."""
    assert isinstance(request, AssignReplicasToDirsRequest)
    return AssignReplicasToDirsResponse(
        error_code=0,
        directories=tuple(
            PlacedDirectoryResult(
                id=directory.id,
                topics=tuple(
                    PlacedTopicResult(
                        topic_id=topic.topic_id,
                        partitions=tuple(
                            PlacedPartitionResult(
                                partition_index=each.partition_index, error_code=error
                            )
                            for each in topic.partitions
                        ),
                    )
                    for topic in directory.topics
                ),
            )
            for directory in request.directories
        ),
    )


class HostedReplicas:
    """Broker ME. Create it within a loop. `failures`: of its storage, which would end the process.

    `second`: path of another log directory, with `second_files`; `record` is told of failures of one of both.
    `static`: configs of topics and brokers in the configuration file. `is_awaited`: all logs are open when the constructor returns;
    otherwise `refused` gets None, or why no log was opened. `not_opened`: path → reason of directories that are offline from the start.
    """

    def __init__(
        self,
        root: Path,
        cluster: ControlledCluster | None = None,
        files: FileSystem = POSIX,
        second: Path | None = None,
        second_files: FileSystem = POSIX,
        record: DirectoryRecord | None = None,
        static: Mapping[str, str] | None = None,
        producer_check_ms: int | None = None,
        *,
        is_awaited: bool = True,
        not_opened: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster = cluster or ControlledCluster((ME, OTHER))
        self.failures: list[StorageFailure | DiskFull] = []
        self.peers = SilentPeers()
        self.controller = SilentController()
        self.directory = LogDirectory(root, node_id=ME, cluster_id="c", files=files)
        self.opened = [OpenDataDirectory(self.directory)]
        if second is not None:
            other = LogDirectory(second, node_id=ME, cluster_id="c", files=second_files)
            self.opened.append(OpenDataDirectory(other))
        self.threads = AwaitedThreads()
        self.directories = DataDirectories(
            self.opened, BrokerEvents(), self.failures.append, not_opened, record=record
        )
        config = broker_config()
        values = TopicValues(ME, static or {}, config.lag_time_max_ms)

        def own() -> tuple[int, int]:
            return ME, self.cluster.epoch(ME)

        self.replicas = AssignedReplicas(
            ME,
            self.directories,
            values,
            Fetchers(
                self.peers, config, own, lambda _: Endpoint("P", "other", 9092), BrokerEvents()
            ),
            IsrRequests(self.controller, own),  # type: ignore[arg-type]
            DirectoryAssignments(self.controller, own),  # type: ignore[arg-type]
            BrokerEvents(),
            Intervals(
                config.lag_time_max_ms,
                config.retention_check_ms,
                producer_check_ms or config.producer_check_ms,
                values.sync_check_ms,
            ),
            self.threads,
        )
        self.refused: list[AmbiguousReplica | None] = []
        self.replicas.start(self.cluster.image, self.refused.append)
        if is_awaited:
            self.threads.finish()

    def register_directories(self) -> tuple[UUID, ...]:
        """Tell the cluster which directories this broker has; their ids."""
        ids = self.directories.online_ids
        self.cluster.change(ME, log_dirs=ids)
        self.replicas.apply(self.cluster.image)
        return ids

    def create(self, name: str, *replicas: tuple[int, ...], **configs: str) -> HostedReplica:
        """A topic, by default of one partition on this broker; its first replica."""
        self._create(name, replicas or ((ME,),), configs)
        return self.replica(name)

    def create_elsewhere(self, name: str, partitions: int = 1) -> None:
        """A topic of which this broker has no replica."""
        self._create(name, ((OTHER,),) * partitions, {})

    def _create(
        self,
        name: str,
        replicas: tuple[tuple[int, ...], ...],
        configs: dict[str, str],
        *,
        is_awaited: bool = True,
    ) -> None:
        topic = assigned(name, *replicas, **configs)
        request = CreateTopicsRequest(topics=(topic,))
        self.cluster.ask(create_topics, request, CreateTopicsResponse)
        self.replicas.apply(self.cluster.image)
        if is_awaited:
            self.threads.finish()

    def delete(self, name: str) -> None:
        """Delete a topic."""
        request = DeleteTopicsRequest(topic_names=(name,), timeout_ms=1000)
        self.cluster.ask(delete_topics, request, DeleteTopicsResponse)
        self.replicas.apply(self.cluster.image)

    def replica(self, name: str, partition_id: int = 0) -> HostedReplica:
        """A replica of this broker."""
        found = self.replicas.replica(self.cluster.topic_id(name), partition_id)
        assert found is not None
        return found

    def close(self, *, cleanly: bool = True) -> None:
        """Stop; otherwise the files stay as they are."""
        self.replicas.close()
        self.directory.close(1, cleanly=cleanly)


def produce(
    replica: HostedReplica, data: bytes, acks: int = 1, guard: int = NO_GUARD
) -> tuple[BrokerError, int] | None:
    """(error, base offset); None while the request waits."""
    batch = read_produced(data, replica.limits)
    assert isinstance(batch, Batch), batch
    done: list[tuple[BrokerError, int]] = []
    replica.produce(batch, acks, 1000.0, lambda error, offset: done.append((error, offset)), guard)
    return done[0] if done else None


def answered(
    handle: Callable[[InboundRequest, Any], None],
    api: Api,
    body: Message,
    version: int | None = None,
    connection: OneConnection | None = None,
) -> Any:
    """The answer that a handler gives at once, encoded and decoded as on the wire, both ways."""
    version = api.max_version if version is None else version
    frame = encode_request(api, version, 1, "a client", body)[SIZE_BYTES:]
    connection = connection or OneConnection(Caller("User:ANONYMOUS", "127.0.0.1", "PLAINTEXT"))
    inbound = InboundRequest(connection, decode_request(frame, BROKER_APIS), 0.0)
    handle(inbound, inbound.request.body)
    assert inbound.encoded is not None
    return decode_response(api, version, b"".join(inbound.encoded)[SIZE_BYTES:])
