"""All replicas of this process, one per quorum partition, and their shared parts (K595-31).

They share the disk and the process, so they end together: when one replica's storage fails, all of them hand over and stop. Everything
else (epoch, leader, voters, log, fsyncs) is separate for each partition. Leaders are not balanced over the nodes: each partition has its
own elections.
"""

import asyncio
from collections.abc import Iterable
from typing import Protocol

from quorum_node.configuration.node_config import NodeConfig
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.outputs import Halt, HaltReason, VotersChanged
from quorum_node.server.disk.disk_watch import DiskWatch
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.observing.node_events import MalformedBytes, ReplicaEvents
from quorum_node.server.partition.port import HostedPartition
from quorum_node.server.partition.replica_host import MakeRole, ReplicaHost, no_role
from quorum_node.server.peers.dialling import Dialling
from quorum_node.server.peers.pool import PeerPool
from quorum_node.server.process.gauges import gauges_of_replica, names_of_peers
from quorum_node.server.snapshots.events import SnapshotEvents
from quorum_node.server.starting.replica_building import build_replica
from quorum_node.storage.directory import OpenDirectory
from quorum_node.storage.disk_reserve import DiskReserve
from quorum_node.storage.errors import DiskFull, OutOfResources, StorageFailure
from quorum_node.storage.partition_directory import OpenPartition

WARM_AGAIN_SECONDS = 5.0
"""In seconds: how long a voter may be without a connection after closing one; far below the shortest useful idle time."""

_FAILURES: dict[HaltReason, type[StorageFailure | DiskFull]] = {
    HaltReason.DISK_FULL: DiskFull,
    HaltReason.OUT_OF_RESOURCES: OutOfResources,
}
"""How the other replicas of the process fail after one has halted; StorageFailure for other reasons."""


class ProcessPort(Protocol):
    """The process that hosts the replicas."""

    def halted(self, halt: Halt) -> None:
        """All replicas have halted; called once, with the reason."""

    def voters_changed(self, host: HostedPartition, event: VotersChanged) -> None:
        """The voters of a partition have changed."""

    def broken(self, error: BaseException) -> None:
        """A bug interrupted a step in a partition."""


class HostedPartitions:
    """`make_role`: creates the role of the first partition; the others have none."""

    def __init__(
        self,
        config: NodeConfig,
        directory: OpenDirectory,
        metrics: Metrics,
        malformed: MalformedBytes,
        reserve: DiskReserve,
        process: ProcessPort,
        make_role: MakeRole = no_role,
        dialling: Dialling | None = None,
    ) -> None:
        self._process = process
        self._ended = False
        self._warming: asyncio.TimerHandle | None = None
        self._reserve = reserve
        self.disk_watch = DiskWatch(config.data_dir, reserve, self)
        self.peers = PeerPool(
            f"node-{config.node_id}",
            metrics,
            partitions=len(directory.partitions),
            reconnect_backoff_ms=config.timeouts.retry_backoff_ms,
            on_malformed=malformed.from_peer,
            dialling=dialling,
        )
        self.hosts = tuple(
            self._host(
                config, directory, opened, metrics, make_role if not opened.number else no_role
            )
            for opened in directory.partitions
        )
        metrics.write_labels_by(names_of_peers(self.hosts))

    def _host(
        self,
        config: NodeConfig,
        directory: OpenDirectory,
        opened: OpenPartition,
        metrics: Metrics,
        make_role: MakeRole,
    ) -> ReplicaHost:
        alone = len(directory.partitions) == 1
        prefix = "" if alone else f"partition {opened.number}: "
        host = ReplicaHost(
            build_replica(config, directory.meta, opened),
            opened.log,
            opened.state_file,
            metrics,
            self.peers,
            self,
            ReplicaEvents(opened.number, prefix),
            SnapshotEvents(prefix),
            partition=opened.number,
            snapshots=opened.snapshots,
            newest=opened.newest,
            policy=config.snapshots,
            room=lambda: self._reserve.above_reserve_bytes,
            scrub_bytes_per_second=config.scrub_bytes_per_second,
            make_role=make_role,
        )
        metrics.partition(opened.number).ask_at_scrape(gauges_of_replica(host))
        return host

    def voter_ids(self) -> frozenset[int]:
        """Ids of the latest voters of all partitions."""
        return frozenset(
            voter.key.id
            for host in self.hosts
            for voter in host.driver.replica.voters.latest.voters
        )

    def voter_at(self, host: str, port: int) -> int | None:
        """Id of the voter at this address; None if no voter, or more than one, has it."""
        found = {
            voter.key.id
            for each in self.hosts
            for voter in each.driver.replica.voters.latest.voters
            if (endpoint := voter.endpoint(CONTROLLER)) is not None
            and (endpoint.host, endpoint.port) == (host, port)
        }
        return found.pop() if len(found) == 1 else None

    @property
    def first(self) -> ReplicaHost:
        """Partition 0, the only one that Kafka's clients know."""
        return self.hosts[0]

    def start(self) -> None:
        """Start the replicas."""
        for host in self.hosts:
            host.start()
        self._warm_later()

    def request_shutdown(self) -> None:
        """Hand leaderships over, and halt."""
        for host in self.hosts:
            host.request_shutdown()

    def close(self) -> None:
        """Close connections and timers; the logs are closed by their owner."""
        if self._warming is not None:
            self._warming.cancel()
        for host in self.hosts:
            host.close()
        self.peers.close()

    def _warm_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._warming = loop.call_later(WARM_AGAIN_SECONDS, self._warm_again)

    def _warm_again(self) -> None:
        # In an idle quorum most connections carry nothing, and idle ones are closed (connections.max.idle.ms).
        self._warm_later()
        for host in self.hosts:
            host.warm_peers()

    # -- from the disk watch and other parts that detect a failed disk

    def flushes_begun_at(self) -> Iterable[float | None]:
        """See `DiskUsers`."""
        return [host.flusher.busy_since for host in self.hosts]

    def fail_storage(self, failure: StorageFailure | DiskFull) -> None:
        """The disk of all replicas failed."""
        for host in self.hosts:
            if host.halt is None:
                host.fail_storage(failure)

    def disk_low(self, low: bool) -> None:
        """Free space crossed the reserve."""
        for host in self.hosts:
            host.disk_low(low)

    # -- from the replicas

    def flushed(self) -> None:
        """See `PartitionOwner`."""
        self.disk_watch.flushed()

    def voters_changed(self, host: HostedPartition, event: VotersChanged) -> None:
        """See `PartitionOwner`."""
        self._process.voters_changed(host, event)

    def broken(self, error: Exception) -> None:
        """See `PartitionOwner`."""
        self._process.broken(error)

    def halted(self, host: HostedPartition, halt: Halt) -> None:
        """See `PartitionOwner`."""
        if self._ended:
            return
        if halt.reason is HaltReason.SHUTDOWN:
            self._ended = all(each.halt is not None for each in self.hosts)
        else:
            self._ended = True
            detail = f"partition {host.partition} stopped the process: {halt.detail}"
            self.fail_storage(_FAILURES.get(halt.reason, StorageFailure)(detail))
        if self._ended:
            self._process.halted(halt)
