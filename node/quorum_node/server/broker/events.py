"""Log lines of the broker."""

from typing import Protocol

import structlog

from quorum_node.image.topics import PartitionKey

_LOG = structlog.get_logger("quorum_node")
_REPAIR = 'docs/how-to/broker-disks.md, "Repair a directory"'


class Named(Protocol):
    """A replica of a partition, by topic name and key."""

    @property
    def topic_name(self) -> str: ...

    @property
    def key(self) -> PartitionKey: ...


class BrokerEvents:
    """One method for each log line."""

    def searching_logs(self, seconds: float) -> None:
        """Log that the start has not begun to open logs. `seconds`: since it has begun."""
        _LOG.info(
            f"looking for logs in log.dirs, and setting stray ones aside: not done after {seconds:.0f} s"
        )

    def opening(self, is_open: int, total: int, seconds: float) -> None:
        """Log the progress of the start. `seconds`: since it has begun."""
        _LOG.info(f"opening logs: {is_open} of {total} are open after {seconds:.0f} s")

    def opened(self, replicas: int, strays: int, seconds: float) -> None:
        """Log that the logs are open and the first image is applied. `seconds`: since the start has begun."""
        _LOG.info(f"opened {replicas} replicas in {seconds:.1f} s; set {strays} stray logs aside")

    def set_aside(self, name: str) -> None:
        """Log that a log on the disk was set aside, because the metadata does not assign this replica to this broker."""
        _LOG.warning(
            f"{name}: the metadata assigns no such replica to this broker, or its topic was replaced, or its directory"
            " has no partition.metadata. The directory is renamed (-stray), and deleted in an hour. To keep the"
            " records, copy it"
        )

    def directory_offline(self, path: str, why: str) -> None:
        """Log that a directory can't be opened at the start; its replicas are offline until a later start."""
        _LOG.error(f"log directory {path} stays offline with its replicas: {why}. See {_REPAIR}")

    def directory_failed(self, path: str, why: str, left: int) -> None:
        """Log that a directory failed. `left`: number of directories that are still online."""
        _LOG.error(
            f"log directory {path} failed: {why}. Its replicas are offline; directories that are online: {left}."
            f" To use it again, see {_REPAIR}"
        )

    def duplicate_set_aside(self, name: str, path: str) -> None:
        """Log that a directory has an old log of a replica that is in another directory now."""
        _LOG.warning(
            f"{name} in {path} is an old copy: this replica is in another log directory now. It is renamed (-stray),"
            " and deleted in an hour"
        )

    def moved(self, name: str, path: str) -> None:
        """Log that a replica was moved to another log directory."""
        _LOG.info(f"{name} was moved to log directory {path}")

    def not_moved(self, name: str, path: str, why: str) -> None:
        """Log that a move failed. The replica stays in its directory."""
        _LOG.warning(
            f"{name} can't be moved to log directory {path}, and stays in its directory: {why}. Correct the cause, and"
            " request the move again"
        )

    def replica_offline(self, name: str) -> None:
        """Log that a replica is offline, because its log is in no online directory and must not be created."""
        _LOG.warning(
            f"{name} is offline: its log may be in a log directory that is offline. It is not created elsewhere."
            f" Repair that directory: see {_REPAIR}"
        )

    def epochs_went_back(self, name: str, log_epoch: int, metadata_epoch: int) -> None:
        """Log that a replica is offline, because its log has later leader epochs than the metadata."""
        _LOG.error(
            f"{name} is offline: its log has records of leader epoch {log_epoch}, but the metadata is at {metadata_epoch}. So it"
            " was restored or recovered without its newest changes. The log is kept. See docs/how-to/back-up-and-restore.md,"
            ' "Brokers after a restore"'
        )

    def no_cluster_id(self) -> None:
        """Log that the broker waits for the cluster id, which stock controllers don't send."""
        _LOG.warning(
            "the broker can't register: the controllers do not report the cluster id. Set cluster.id to the id that"
            " `kafka-cluster.sh cluster-id` prints"
        )

    def registered(self, broker_epoch: int) -> None:
        """Log that the active controller has registered this process."""
        _LOG.info(f"registered as a broker in epoch {broker_epoch}", brokerEpoch=broker_epoch)

    def not_registered(self, why: str) -> None:
        """Log that the registration failed; it is retried after a pause."""
        _LOG.warning(f"not registered as a broker yet: {why}")

    def unfenced(self) -> None:
        """Log that the broker serves clients."""
        _LOG.info("the broker is unfenced: it serves clients")

    def fenced(self) -> None:
        """Log that the broker no longer leads partitions."""
        _LOG.warning(
            "the broker is fenced: the active controller has not received its heartbeats in time. It leads no partition"
            " until heartbeats arrive: check the network to the controllers, and whether this host is overloaded"
        )

    def unregistered(self) -> None:
        """Log that the registration of this broker was removed."""
        _LOG.warning("the broker was unregistered while it was running: it registers again")

    def leaves(self) -> None:
        """Log that a controlled shutdown has begun."""
        _LOG.info("asked the active controller to move leaderships to other brokers")

    def left(self) -> None:
        """Log that the controlled shutdown is complete; the process may end."""
        _LOG.info("the active controller has completed the shutdown of this broker")

    def diverged(self, replica: Named, epoch: int, end_offset: int) -> None:
        """Log that a follower truncates records that its leader does not have."""
        name = f"{replica.topic_name}-{replica.key.partition_id}"
        _LOG.info(
            f"{name}: the leader's epoch {epoch} ends at {end_offset}: the log is truncated there"
        )

    def corrupt_fetch(self, replica: Named, leader_id: int, why: str) -> None:
        """Log that a fetched batch is damaged; it is fetched again."""
        name = f"{replica.topic_name}-{replica.key.partition_id}"
        _LOG.warning(
            f"{name}: broker {leader_id} sent a damaged batch ({why}). It is fetched again; if this repeats, check the disk"
            f" of broker {leader_id}"
        )

    def coordinates(self, partition_id: int, groups: int, size_bytes: int) -> None:
        """Log that the groups of a partition of __consumer_offsets are loaded and served from now on."""
        _LOG.info(
            f"coordinator of {groups} groups in __consumer_offsets-{partition_id}, loaded from {size_bytes} bytes"
        )

    def unreadable_groups(self, why: str) -> None:
        """Log that groups can't be loaded. Their requests get COORDINATOR_LOAD_IN_PROGRESS until another broker leads the partition."""
        _LOG.error(
            f"the groups of a partition can't be loaded: {why}. Their clients wait until another"
            " broker leads the partition: move it with kafka-reassign-partitions.sh"
        )

    def no_offsets_topic(self, why: str) -> None:
        """Log that the creation failed. It is retried with the next request of a client."""
        _LOG.warning(
            f"__consumer_offsets can't be created: {why}. Consumer groups wait for it. If there are fewer brokers than"
            " offsets.topic.replication.factor, start more brokers or lower that value"
        )

    def compacted(self, name: str, end_offset: int, before_bytes: int, after_bytes: int) -> None:
        """Log that one log was compacted."""
        _LOG.info(
            f"{name}: compacted below offset {end_offset}, from {before_bytes} to {after_bytes} bytes"
        )

    def not_compacted(self, name: str, why: str) -> None:
        """Log that one log can't be compacted. No data is lost, but the log grows."""
        _LOG.warning(
            f"{name} is not compacted until the broker is restarted, and its log grows: {why}"
        )

    def no_room_to_compact(self, why: str) -> None:
        """Log that the disk is full; the next round tries again."""
        _LOG.warning(
            f"compaction is suspended, because there is no space for the copy of a segment: {why}. Free disk space in log.dirs"
        )
