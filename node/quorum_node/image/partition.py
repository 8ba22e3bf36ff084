"""The state of one partition, and its changes by records. PURE.

Owns the normal form of a partition and the rules of replay: which epochs are incremented, which fields stay. Must not
know why a change was decided.
Source: KIP-631, "PartitionRecord" and "PartitionChangeRecord"; KIP-858 (directories), KIP-966 (eligible leader
replicas), as a stock 4.x controller replays them.
"""

from dataclasses import replace
from uuid import UUID

from quorum_node.records.metadata import (
    LEADER_UNCHANGED,
    MIGRATING,
    RECOVERY_UNCHANGED,
    PartitionChangeRecord,
    PartitionRecord,
)
from quorum_node.records.metadata.metadata_version import (
    DIRECTORIES_LEVEL,
    ELIGIBLE_LEADER_REPLICAS_LEVEL,
)

Partition = PartitionRecord
"""The state of a partition is the newest form of its record, normalized by `normal`: a directory for every replica,
and null for empty eligible leader replicas and last known ones. So tagged fields of newer versions are kept, and
neither replay nor a snapshot copies a dozen fields of each of a million partitions.
"""


def normal(record: PartitionRecord) -> Partition:
    """The normal form of a record."""
    directories, replicas = record.directories, record.replicas
    elr, last_known = record.eligible_leader_replicas, record.last_known_elr
    if len(directories) == len(replicas) and elr != () and last_known != ():
        return record
    return replace(
        record,
        directories=_placed(directories, len(replicas)),
        eligible_leader_replicas=elr or None,
        last_known_elr=last_known or None,
    )


def changed(partition: Partition, change: PartitionChangeRecord) -> Partition:
    """The partition after a change record."""
    replicas = partition.replicas if change.replicas is None else change.replicas
    directories = partition.directories if change.directories is None else change.directories
    isr = partition.isr if change.isr is None else change.isr
    removing, adding = change.removing_replicas, change.adding_replicas
    elr, last_known = change.eligible_leader_replicas, change.last_known_elr
    leader_changed = change.leader != LEADER_UNCHANGED
    recovery = change.leader_recovery_state
    return Partition(
        partition_id=partition.partition_id,
        topic_id=partition.topic_id,
        replicas=replicas,
        isr=replicas if isr == replicas else isr,
        removing_replicas=partition.removing_replicas if removing is None else removing,
        adding_replicas=partition.adding_replicas if adding is None else adding,
        leader=change.leader if leader_changed else partition.leader,
        leader_recovery_state=(
            partition.leader_recovery_state if recovery == RECOVERY_UNCHANGED else recovery
        ),
        leader_epoch=partition.leader_epoch + leader_changed,
        partition_epoch=partition.partition_epoch + 1,
        directories=_placed(directories, len(replicas)),
        eligible_leader_replicas=partition.eligible_leader_replicas if elr is None else elr or None,
        last_known_elr=(partition.last_known_elr if last_known is None else last_known or None),
        tagged_fields=partition.tagged_fields,
    )


def at_level(partition: Partition, metadata_version: int) -> PartitionRecord:
    """The record of the partition, without fields that the level does not support."""
    if metadata_version >= ELIGIBLE_LEADER_REPLICAS_LEVEL:
        return partition
    return replace(
        partition,
        directories=partition.directories if metadata_version >= DIRECTORIES_LEVEL else (),
        eligible_leader_replicas=None,
        last_known_elr=None,
    )


def _placed(directories: tuple[UUID, ...], replica_count: int) -> tuple[UUID, ...]:
    """Directories of the replicas; without any, unknown ones."""
    if len(directories) == replica_count:
        return directories
    if any(each != MIGRATING for each in directories):
        raise ValueError(f"{len(directories)} directories for {replica_count} replicas")
    return (MIGRATING,) * replica_count
