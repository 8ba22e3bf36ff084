"""Any number of changes of one partition, combined into one change for an unknown partition. PURE.

Owns composing changes and applying them. The rules are those of `quorum_node.image.partition`: the last value of a
field wins, epochs are counted, and clearing eligible leader replicas counts as a change only if there are any.
Source: KIP-631, "PartitionChangeRecord"; KIP-858 (directories); KIP-966 (eligible leader replicas).
"""

from dataclasses import dataclass, replace
from uuid import UUID

from quorum_node.image.partition import Partition
from quorum_node.records.metadata import (
    LEADER_UNCHANGED,
    MIGRATING,
    RECOVERY_UNCHANGED,
    PartitionChangeRecord,
)
from quorum_pipeline.deltas.lengths import Lengths, joined, reported_at

Numbers = tuple[int, ...]
ELR, LAST_KNOWN_ELR = 1, 2


@dataclass(frozen=True, slots=True)
class Change:
    """The combination of changes of a partition. A field is None if no change sets it.

    `changes` and `leaders` are added to the epochs of the partition and of its leader. `sets`: which of the two kinds of
    eligible leader replicas are set (ELR, LAST_KNOWN_ELR). `cleared_if`: one more change if the partition had any of
    these kinds. `directories` is () if they are set and none is assigned yet. `replica_count`, `directory_count`:
    requirements on the earlier state.
    """

    changes: int = 0
    leaders: int = 0
    leader: int = LEADER_UNCHANGED
    recovery: int = RECOVERY_UNCHANGED
    replicas: Numbers | None = None
    isr: Numbers | None = None
    removing: Numbers | None = None
    adding: Numbers | None = None
    directories: tuple[UUID, ...] | None = None
    sets: int = 0
    elr: Numbers | None = None
    last_known: Numbers | None = None
    cleared_if: int = 0
    replica_count: Lengths | None = None
    directory_count: Lengths | None = None

    def required(self) -> "Change | None":
        """Return only its requirements on the earlier partition, which have to hold even if the change itself is superseded."""
        if self.replica_count is None and self.directory_count is None:
            return None
        return Change(replica_count=self.replica_count, directory_count=self.directory_count)


CLEARED = Change(sets=ELR | LAST_KNOWN_ELR, cleared_if=ELR | LAST_KNOWN_ELR)
"""Clears eligible leader replicas. It requires no partition to exist."""


def change_of(record: PartitionChangeRecord, offset: int) -> tuple[Change, int | None]:
    """Return the change of one record, and its offset if it contradicts itself."""
    replicas, directories = record.replicas, record.directories
    wrong, replica_count, directory_count = None, None, None
    if directories is not None and all(each == MIGRATING for each in directories):
        directories = ()
    if directories and replicas is not None:
        wrong = offset if len(directories) != len(replicas) else None
    elif directories:
        replica_count = Lengths(len(directories), offset)
    elif replicas is not None and directories is None:
        directory_count = Lengths(len(replicas), offset)
    elr, last_known = record.eligible_leader_replicas, record.last_known_elr
    change = Change(
        changes=1,
        leaders=int(record.leader != LEADER_UNCHANGED),
        leader=record.leader,
        recovery=record.leader_recovery_state,
        replicas=replicas,
        isr=record.isr,
        removing=record.removing_replicas,
        adding=record.adding_replicas,
        directories=directories,
        sets=(ELR if elr is not None else 0) | (LAST_KNOWN_ELR if last_known is not None else 0),
        elr=elr or None,
        last_known=last_known or None,
        replica_count=replica_count,
        directory_count=directory_count,
    )
    return change, wrong


def composed(first: Change, then: Change) -> tuple[Change, int | None]:
    """Return the composition, and the offset of the first record that contradicts an earlier one, if any."""
    replica_count, directory_count = first.replica_count, first.directory_count
    wrong: list[int | None] = []
    if then.replica_count is not None and first.replicas is not None:
        wrong.append(then.replica_count.violated_at(len(first.replicas)))
    else:
        replica_count = joined(replica_count, then.replica_count)
    if then.directory_count is not None and first.directories:
        wrong.append(then.directory_count.violated_at(len(first.directories)))
    elif first.directories is None:
        directory_count = joined(directory_count, then.directory_count)
    counted, cleared_if = _cleared(first, then)
    change = Change(
        changes=first.changes + then.changes + counted,
        leaders=first.leaders + then.leaders,
        leader=first.leader if then.leader == LEADER_UNCHANGED else then.leader,
        recovery=first.recovery if then.recovery == RECOVERY_UNCHANGED else then.recovery,
        replicas=first.replicas if then.replicas is None else then.replicas,
        isr=first.isr if then.isr is None else then.isr,
        removing=first.removing if then.removing is None else then.removing,
        adding=first.adding if then.adding is None else then.adding,
        directories=first.directories if then.directories is None else then.directories,
        sets=first.sets | then.sets,
        elr=then.elr if then.sets & ELR else first.elr,
        last_known=then.last_known if then.sets & LAST_KNOWN_ELR else first.last_known,
        cleared_if=cleared_if,
        replica_count=replica_count,
        directory_count=directory_count,
    )
    return change, min((each for each in wrong if each is not None), default=None)


def applied(change: Change, partition: Partition) -> tuple[Partition, int | None]:
    """Return the changed partition, and the offset of the first record that contradicts it, if any."""
    wrong: list[int | None] = []
    if change.replica_count is not None:
        wrong.append(change.replica_count.violated_at(len(partition.replicas)))
    if change.directory_count is not None and any(
        each != MIGRATING for each in partition.directories
    ):
        wrong.append(change.directory_count.violated_at(len(partition.directories)))
    replicas = partition.replicas if change.replicas is None else change.replicas
    elr, last_known = partition.eligible_leader_replicas, partition.last_known_elr
    cleared = bool(
        (change.cleared_if & ELR and elr) or (change.cleared_if & LAST_KNOWN_ELR and last_known)
    )
    recovery = change.recovery
    after = replace(
        partition,
        replicas=replicas,
        isr=partition.isr if change.isr is None else change.isr,
        removing_replicas=(
            partition.removing_replicas if change.removing is None else change.removing
        ),
        adding_replicas=partition.adding_replicas if change.adding is None else change.adding,
        leader=partition.leader if change.leader == LEADER_UNCHANGED else change.leader,
        leader_recovery_state=(
            partition.leader_recovery_state if recovery == RECOVERY_UNCHANGED else recovery
        ),
        leader_epoch=partition.leader_epoch + change.leaders,
        partition_epoch=partition.partition_epoch + change.changes + cleared,
        directories=_placed(change, partition, len(replicas)),
        eligible_leader_replicas=change.elr if change.sets & ELR else elr,
        last_known_elr=change.last_known if change.sets & LAST_KNOWN_ELR else last_known,
    )
    return after, min((each for each in wrong if each is not None), default=None)


def change_reported_at(change: Change, offset: int) -> Change:
    """Return the change as that of one record at `offset`."""
    if change.replica_count is None and change.directory_count is None:
        return change
    return replace(
        change,
        replica_count=reported_at(change.replica_count, offset),
        directory_count=reported_at(change.directory_count, offset),
    )


def _cleared(first: Change, then: Change) -> tuple[int, int]:
    """Return 1 if clearing after `first` is a change (else 0), and the kinds whose presence in the earlier partition makes it one."""
    if not then.cleared_if:
        return 0, first.cleared_if
    conditions = then.cleared_if
    if (conditions & ELR and first.elr) or (conditions & LAST_KNOWN_ELR and first.last_known):
        return 1, first.cleared_if
    return 0, first.cleared_if | (conditions & ~first.sets)


def _placed(change: Change, partition: Partition, count: int) -> tuple[UUID, ...]:
    directories = partition.directories if change.directories is None else change.directories
    return directories if len(directories) == count else (MIGRATING,) * count
