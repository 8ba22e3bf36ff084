"""Log lines of the broker."""

from typing import Protocol

import structlog

from quorum_node.image.topics import PartitionKey

_LOG = structlog.get_logger("quorum_node")


class Named(Protocol):
    """A replica of a partition, by topic name and key."""

    @property
    def topic_name(self) -> str: ...

    @property
    def key(self) -> PartitionKey: ...


class BrokerEvents:
    """One method for each log line."""

    def opened(self, replicas: int, strays: int) -> None:
        """The logs are open, and the first image is applied."""
        _LOG.info(f"opened {replicas} replicas; set {strays} stray logs aside")

    def set_aside(self, name: str) -> None:
        """The log on the disk is of no replica that the metadata assigns to this broker."""
        _LOG.warning(
            f"{name}: the metadata assigns no such replica to this broker, or its topic was replaced, or its directory"
            " has no partition.metadata. The directory is renamed (-stray), and deleted in an hour. To keep the"
            " records, copy it"
        )

    def registered(self, broker_epoch: int) -> None:
        """The active controller has registered this process."""
        _LOG.info(f"registered as a broker in epoch {broker_epoch}", brokerEpoch=broker_epoch)

    def not_registered(self, why: str) -> None:
        """The registration failed; it is retried after a pause."""
        _LOG.warning(f"not registered as a broker yet: {why}")

    def unfenced(self) -> None:
        """The broker is open for clients."""
        _LOG.info("the broker is unfenced: it serves clients")

    def fenced(self) -> None:
        """The broker leads no partitions any more."""
        _LOG.warning(
            "the broker is fenced: the active controller has not received its heartbeats in time"
        )

    def unregistered(self) -> None:
        """The registration of this broker was removed."""
        _LOG.warning("the broker was unregistered while it was running: it registers again")

    def leaves(self) -> None:
        """A controlled shutdown has begun."""
        _LOG.info("asked the active controller to move leaderships to other brokers")

    def left(self) -> None:
        """The process may end."""
        _LOG.info("the active controller has completed the shutdown of this broker")

    def diverged(self, replica: Named, epoch: int, end_offset: int) -> None:
        """A follower truncates records that its leader does not have."""
        name = f"{replica.topic_name}-{replica.key.partition_id}"
        _LOG.info(
            f"{name}: the leader's epoch {epoch} ends at {end_offset}: the log is truncated there"
        )

    def corrupt_fetch(self, replica: Named, leader_id: int, why: str) -> None:
        """A fetched batch is damaged; it is fetched again."""
        name = f"{replica.topic_name}-{replica.key.partition_id}"
        _LOG.warning(f"{name}: broker {leader_id} sent a damaged batch ({why}); trying again")

    def coordinates(self, partition_id: int, groups: int, size_bytes: int) -> None:
        """The groups of a partition of __consumer_offsets are served from now on."""
        _LOG.info(
            f"coordinator of {groups} groups in __consumer_offsets-{partition_id}, loaded from {size_bytes} bytes"
        )

    def unreadable_groups(self, why: str) -> None:
        """Requests to these groups are answered with "coordinator loading", until another broker leads the partition."""
        _LOG.error(f"the groups of a partition can't be loaded: {why}")

    def no_offsets_topic(self, why: str) -> None:
        """The creation is retried with the next request of a client."""
        _LOG.warning(f"__consumer_offsets can't be created: {why}")

    def compacted(self, name: str, end_offset: int, before_bytes: int, after_bytes: int) -> None:
        """One log was compacted."""
        _LOG.info(
            f"{name}: compacted below offset {end_offset}, from {before_bytes} to {after_bytes} bytes"
        )

    def not_compacted(self, name: str, why: str) -> None:
        """One log can't be compacted. No data is lost, but the log grows."""
        _LOG.warning(f"{name} is not compacted until the broker is restarted: {why}")

    def no_room_to_compact(self, why: str) -> None:
        """The disk is full; the next round tries again."""
        _LOG.warning(
            f"compaction is suspended, because there is no space for the copy of a segment: {why}. Free disk space in log.dirs"
        )
