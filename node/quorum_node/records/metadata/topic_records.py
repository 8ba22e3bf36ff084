"""Records about topics and partitions.

Owns declarations, and queries that a partition's record alone answers. Source: KIP-631, "Topic records", as shipped in
Kafka 4.3 (KIP-858: directories; KIP-966: eligible leader replicas).
"""

from uuid import UUID

from quorum_node.records.metadata.record import MetadataMessage, metadata_record
from quorum_node.schema.schema import ANY_UUID, INT8, INT32, STRING, Array, wire

NO_LEADER = -1
LEADER_UNCHANGED = -2
RECOVERED = 0
RECOVERING = 1
"""Leader recovery state after an unclean election, until the leader reports that it has recovered."""
RECOVERY_UNCHANGED = -1

MIGRATING = UUID(int=0)
"""Directory of a replica whose location is unknown (it was created before brokers reported directories)."""
UNASSIGNED = UUID(int=1)
"""Directory of a new replica that has none yet."""
LOST = UUID(int=2)
"""Directory of a replica on a failed disk."""


@metadata_record(number=2)
class TopicRecord(MetadataMessage):
    """A topic is created."""

    name: str = wire(STRING)
    topic_id: UUID = wire(ANY_UUID)


@metadata_record(number=9)
class RemoveTopicRecord(MetadataMessage):
    """A topic is deleted, with its partitions and configs."""

    topic_id: UUID = wire(ANY_UUID)


@metadata_record(number=3, highest_version=2)
class PartitionRecord(MetadataMessage):
    """The whole state of a partition. `replicas` are in order of preference, `directories` in the same order."""

    partition_id: int = wire(INT32)
    topic_id: UUID = wire(ANY_UUID)
    replicas: tuple[int, ...] = wire(Array(INT32))
    isr: tuple[int, ...] = wire(Array(INT32))
    removing_replicas: tuple[int, ...] = wire(Array(INT32), default=())
    adding_replicas: tuple[int, ...] = wire(Array(INT32), default=())
    leader: int = wire(INT32)
    leader_recovery_state: int = wire(INT8, tag=0, default=RECOVERED)
    leader_epoch: int = wire(INT32)
    partition_epoch: int = wire(INT32)
    directories: tuple[UUID, ...] = wire(Array(ANY_UUID), since=1, default=())
    eligible_leader_replicas: tuple[int, ...] | None = wire(
        Array(INT32), since=2, tag=1, nullable_since=2, default=None
    )
    last_known_elr: tuple[int, ...] | None = wire(
        Array(INT32), since=2, tag=2, nullable_since=2, default=None
    )

    @property
    def has_leader(self) -> bool:
        """Whether the partition has a leader."""
        return self.leader != NO_LEADER

    @property
    def preferred_leader(self) -> int:
        """The first replica."""
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def is_reassigning(self) -> bool:
        """Whether the partition is in reassignment."""
        return bool(self.removing_replicas or self.adding_replicas)

    def directory(self, broker_id: int) -> UUID | None:
        """Directory of a broker's replica; None if it has none."""
        if broker_id not in self.replicas:
            return None
        return self.directories[self.replicas.index(broker_id)]


@metadata_record(number=5, highest_version=2)
class PartitionChangeRecord(MetadataMessage):
    """Changes of a partition: None, -2 for the leader and -1 for the recovery state leave a field
    unchanged.

    Every change increments the partition epoch. A change with a leader, even the same one,
    increments the leader epoch.
    """

    partition_id: int = wire(INT32)
    topic_id: UUID = wire(ANY_UUID)
    isr: tuple[int, ...] | None = wire(Array(INT32), tag=0, nullable_since=0, default=None)
    leader: int = wire(INT32, tag=1, default=LEADER_UNCHANGED)
    replicas: tuple[int, ...] | None = wire(Array(INT32), tag=2, nullable_since=0, default=None)
    removing_replicas: tuple[int, ...] | None = wire(
        Array(INT32), tag=3, nullable_since=0, default=None
    )
    adding_replicas: tuple[int, ...] | None = wire(
        Array(INT32), tag=4, nullable_since=0, default=None
    )
    leader_recovery_state: int = wire(INT8, tag=5, default=RECOVERY_UNCHANGED)
    directories: tuple[UUID, ...] | None = wire(
        Array(ANY_UUID), since=1, tag=8, nullable_since=1, default=None
    )
    eligible_leader_replicas: tuple[int, ...] | None = wire(
        Array(INT32), since=2, tag=6, nullable_since=2, default=None
    )
    last_known_elr: tuple[int, ...] | None = wire(
        Array(INT32), since=2, tag=7, nullable_since=2, default=None
    )


@metadata_record(number=28)
class ClearElrRecord(MetadataMessage):
    """Clears the eligible leader replicas of a topic, or of all topics (empty name)."""

    topic_name: str = wire(STRING)
