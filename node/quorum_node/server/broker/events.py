"""What the broker tells those who read its log lines."""

from typing import Protocol

import structlog

from quorum_node.image.topics import PartitionKey

_LOG = structlog.get_logger("quorum_node")


class Named(Protocol):
    """A replica of a partition."""

    @property
    def topic_name(self) -> str: ...

    @property
    def key(self) -> PartitionKey: ...


class BrokerEvents:
    """One line for each thing that somebody may want to know later."""

    def opened(self, replicas: int, strays: int) -> None:
        """The logs are open, and the metadata of the start is applied."""
        _LOG.info(f"opened {replicas} replicas; {strays} stray logs are set aside")

    def registered(self, broker_epoch: int) -> None:
        """The active controller knows this process."""
        _LOG.info(f"registered as a broker in epoch {broker_epoch}", brokerEpoch=broker_epoch)

    def not_registered(self, why: str) -> None:
        """It asks again after a pause."""
        _LOG.warning(f"not registered as a broker yet: {why}")

    def unfenced(self) -> None:
        """Clients may come."""
        _LOG.info("the broker is unfenced: it takes part")

    def fenced(self) -> None:
        """It leads nothing any more."""
        _LOG.warning(
            "the broker is fenced: the active controller has not heard its heartbeats in time"
        )

    def unregistered(self) -> None:
        """Somebody removed the registration."""
        _LOG.warning("the broker was unregistered while it runs: it registers anew")

    def leaves(self) -> None:
        """A controlled shutdown has begun."""
        _LOG.info("asked the active controller to move leaderships to other brokers")

    def left(self) -> None:
        """The process may end."""
        _LOG.info("the active controller lets this broker go")

    def diverged(self, replica: Named, epoch: int, end_offset: int) -> None:
        """A follower cuts what its leader does not have."""
        name = f"{replica.topic_name}-{replica.key.partition_id}"
        _LOG.info(f"{name}: the leader's epoch {epoch} ends at {end_offset}: the log is cut there")

    def corrupt_fetch(self, replica: Named, leader_id: int, why: str) -> None:
        """It is fetched again."""
        name = f"{replica.topic_name}-{replica.key.partition_id}"
        _LOG.warning(
            f"{name}: broker {leader_id} sent bytes that are no batch ({why}); trying again"
        )

    def coordinates(self, partition_id: int, groups: int, size_bytes: int) -> None:
        """The groups of a partition of __consumer_offsets are served from now on."""
        _LOG.info(
            f"coordinates the {groups} groups of __consumer_offsets-{partition_id}, read from {size_bytes} bytes"
        )

    def unreadable_groups(self, why: str) -> None:
        """Its groups are told that the coordinator is loading, until another broker leads the partition."""
        _LOG.error(f"can't coordinate the groups of a partition: {why}")

    def no_offsets_topic(self, why: str) -> None:
        """It is tried again when a client asks the next time."""
        _LOG.warning(f"__consumer_offsets can't be created: {why}")

    def compacted(self, name: str, end_offset: int, before_bytes: int, after_bytes: int) -> None:
        """A round of the cleaner is done with one log."""
        _LOG.info(
            f"{name}: compacted below offset {end_offset}, from {before_bytes} to {after_bytes} bytes"
        )

    def not_compacted(self, name: str, why: str) -> None:
        """Nothing is lost; it grows."""
        _LOG.warning(f"{name} grows until the broker is started again: {why}")

    def no_room_to_compact(self, why: str) -> None:
        """The next round tries again."""
        _LOG.warning(
            f"nothing is compacted, as there is no room for the copy of a segment: {why}. Make room in log.dirs"
        )
