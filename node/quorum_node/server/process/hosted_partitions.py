"""All replicas of this process, one per quorum partition, and what they share (K595-31).

They share the disk and the process, so they share its end: when one replica's storage fails, all of
them hand over and stop. Everything else (epoch, leader, voters, log, fsyncs) is each partition's
own. Leaders are not balanced over the nodes: each partition elects for itself.
"""

from collections.abc import Callable

from quorum_node.configuration.node_config import NodeConfig
from quorum_node.raft.outputs import Halt, HaltReason, VotersChanged
from quorum_node.server.ending.fail_stop import OnBug
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.observing.node_events import MalformedBytes, ReplicaEvents
from quorum_node.server.partition.replica_host import ReplicaHost
from quorum_node.server.peers.pool import PeerPool
from quorum_node.server.process.gauges import gauges_of_replica, names_of_peers
from quorum_node.server.starting.replica_building import build_replica
from quorum_node.storage.directory import OpenDirectory
from quorum_node.storage.disk_reserve import DiskReserve
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.partition_directory import OpenPartition


class HostedPartitions:
    """`on_halt` hears once how it ends, `on_voters` of every change in any partition."""

    def __init__(
        self,
        config: NodeConfig,
        directory: OpenDirectory,
        metrics: Metrics,
        malformed: MalformedBytes,
        reserve: DiskReserve,
    ) -> None:
        self.on_halt: Callable[[Halt], None] = lambda halt: None
        self.on_voters: Callable[[ReplicaHost, VotersChanged], None] = lambda host, event: None
        self._ended = False
        self._reserve = reserve
        self.peers = PeerPool(
            f"node-{config.node_id}",
            metrics,
            partitions=len(directory.partitions),
            reconnect_backoff_ms=config.timeouts.retry_backoff_ms,
            on_malformed=malformed.from_peer,
        )
        self.hosts = tuple(
            self._host(config, directory, opened, metrics) for opened in directory.partitions
        )
        metrics.label_text = names_of_peers(self.hosts)

    def _host(
        self,
        config: NodeConfig,
        directory: OpenDirectory,
        opened: OpenPartition,
        metrics: Metrics,
    ) -> ReplicaHost:
        events = ReplicaEvents(opened.number, alone=len(directory.partitions) == 1)
        replica = build_replica(config, directory.meta, opened)
        host = ReplicaHost(
            replica,
            opened.log,
            opened.state_file,
            metrics,
            events,
            self.peers,
            partition=opened.number,
            snapshots=opened.snapshots,
            newest=opened.newest,
            policy=config.snapshots,
            room=lambda: self._reserve.above_reserve_bytes,
            scrub_bytes_per_second=config.scrub_bytes_per_second,
        )
        events.on_halt = lambda halt: self._halted(host, halt)
        events.on_voters = lambda event: self.on_voters(host, event)
        metrics.partition(opened.number).gauges = gauges_of_replica(host)
        return host

    def voter_ids(self) -> frozenset[int]:
        """Ids of the latest voters of all partitions."""
        return frozenset(
            voter.key.id
            for host in self.hosts
            for voter in host.driver.replica.voters.latest.voters
        )

    @property
    def first(self) -> ReplicaHost:
        """Partition 0: the one that Kafka knows."""
        return self.hosts[0]

    def start(self) -> None:
        """Let the replicas join in."""
        for host in self.hosts:
            host.start()

    def tell_of_bugs(self, on_bug: OnBug) -> None:
        """Who hears of a step that ended half way, in any partition."""
        for host in self.hosts:
            host.on_bug = on_bug

    def request_shutdown(self) -> None:
        """Hand over what this node leads, and halt."""
        for host in self.hosts:
            host.request_shutdown()

    def fail_storage(self, failure: StorageFailure | DiskFull) -> None:
        """The disk of all replicas failed."""
        for host in self.hosts:
            if host.halt is None:
                host.fail_storage(failure)

    def disk_low(self, low: bool) -> None:
        """Free space crossed the reserve."""
        for host in self.hosts:
            host.disk_low(low)

    def halted(self) -> Halt | None:
        """Why the first replica that halted did."""
        return next((host.halt for host in self.hosts if host.halt is not None), None)

    def close(self) -> None:
        """Drop connections and timers; the logs are closed by their owner."""
        for host in self.hosts:
            host.close()
        self.peers.close()

    def _halted(self, host: ReplicaHost, halt: Halt) -> None:
        if self._ended:
            return
        if halt.reason is HaltReason.SHUTDOWN:
            self._ended = all(each.halt is not None for each in self.hosts)
        else:
            self._ended = True
            full = halt.reason is HaltReason.DISK_FULL
            detail = f"partition {host.partition} stopped the process: {halt.detail}"
            self.fail_storage(DiskFull(detail) if full else StorageFailure(detail))
        if self._ended:
            self.on_halt(halt)
