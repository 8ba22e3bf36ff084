"""The state of one partition, and how records change it. PURE.

Owns the rules of replay: which epochs rise, what stays. Must not know why a change was decided.
Source: KIP-631, "PartitionRecord" and "PartitionChangeRecord"; KIP-858 (directories), KIP-966 (eligible leader replicas),
as a stock 4.x controller replays them.
"""

from uuid import UUID

from quorum_node.records.metadata import (
    LEADER_UNCHANGED,
    MIGRATING,
    NO_LEADER,
    RECOVERED,
    RECOVERY_UNCHANGED,
    PartitionChangeRecord,
    PartitionRecord,
)
from quorum_node.records.metadata.metadata_version import (
    DIRECTORIES_LEVEL,
    ELIGIBLE_LEADER_REPLICAS_LEVEL,
)
from quorum_node.schema.primitives import TaggedFields
from quorum_node.schema.schema import value


@value
class Partition:
    """`replicas` are in order of preference; `directories[i]` is where `replicas[i]` lies.

    `tagged_fields`: what a newer version has said about it.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader: int
    leader_recovery_state: int = RECOVERED
    leader_epoch: int
    partition_epoch: int
    directories: tuple[UUID, ...]
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    tagged_fields: TaggedFields = ()

    @property
    def has_leader(self) -> bool:
        """Whether anybody leads it."""
        return self.leader != NO_LEADER

    @property
    def preferred_leader(self) -> int:
        """The first of its replicas."""
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def is_reassigning(self) -> bool:
        """Whether replicas are on their way in or out."""
        return bool(self.removing_replicas or self.adding_replicas)

    def directory(self, broker_id: int) -> UUID | None:
        """Where the replica of a broker lies; None if it has none."""
        if broker_id not in self.replicas:
            return None
        return self.directories[self.replicas.index(broker_id)]


def partition_of(record: PartitionRecord) -> Partition:
    """The partition that a record describes."""
    return Partition(
        replicas=record.replicas,
        isr=record.replicas if record.isr == record.replicas else record.isr,
        removing_replicas=record.removing_replicas,
        adding_replicas=record.adding_replicas,
        leader=record.leader,
        leader_recovery_state=record.leader_recovery_state,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        directories=_placed(record.directories, len(record.replicas)),
        eligible_leader_replicas=record.eligible_leader_replicas or (),
        last_known_elr=record.last_known_elr or (),
        tagged_fields=record.tagged_fields,
    )


def changed(partition: Partition, change: PartitionChangeRecord) -> Partition:
    """With what a record changes."""
    replicas = partition.replicas if change.replicas is None else change.replicas
    directories = partition.directories if change.directories is None else change.directories
    isr = partition.isr if change.isr is None else change.isr
    removing, adding = change.removing_replicas, change.adding_replicas
    elr, last_known = change.eligible_leader_replicas, change.last_known_elr
    led_anew = change.leader != LEADER_UNCHANGED
    recovery = change.leader_recovery_state
    return Partition(
        replicas=replicas,
        isr=replicas if isr == replicas else isr,
        removing_replicas=partition.removing_replicas if removing is None else removing,
        adding_replicas=partition.adding_replicas if adding is None else adding,
        leader=change.leader if led_anew else partition.leader,
        leader_recovery_state=(
            partition.leader_recovery_state if recovery == RECOVERY_UNCHANGED else recovery
        ),
        leader_epoch=partition.leader_epoch + led_anew,
        partition_epoch=partition.partition_epoch + 1,
        directories=_placed(directories, len(replicas)),
        eligible_leader_replicas=partition.eligible_leader_replicas if elr is None else elr,
        last_known_elr=partition.last_known_elr if last_known is None else last_known,
        tagged_fields=partition.tagged_fields,
    )


def record_of(
    topic_id: UUID, partition_id: int, partition: Partition, metadata_version: int
) -> PartitionRecord:
    """The record that describes it, without what the level has no field for."""
    has_elr = metadata_version >= ELIGIBLE_LEADER_REPLICAS_LEVEL
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories if metadata_version >= DIRECTORIES_LEVEL else (),
        eligible_leader_replicas=(partition.eligible_leader_replicas or None) if has_elr else None,
        last_known_elr=(partition.last_known_elr or None) if has_elr else None,
        tagged_fields=partition.tagged_fields,
    )


def _placed(directories: tuple[UUID, ...], replica_count: int) -> tuple[UUID, ...]:
    """No directories, or none known yet: as many unknown ones as there are replicas."""
    if len(directories) == replica_count:
        return directories
    if any(each != MIGRATING for each in directories):
        raise ValueError(f"{len(directories)} directories for {replica_count} replicas")
    return (MIGRATING,) * replica_count
