"""Creates all PartitionChangeRecords, from the present and the wanted state of a partition. PURE.

Owns what has to change together: the leader with the ISR, the leader epoch with the replicas, the
end of a reassignment with the ISR that completes it. Must not know why a change is wanted. The
choice of the leader is in `partition_leader.py`, the replica lists of a reassignment in
`reassignment.py`.
Source: KIP-631, "PartitionChangeRecord"; KIP-455, KIP-704 (recovery after an unclean election),
KIP-858 (directories), KIP-966 (eligible leader replicas). The record's semantics are those of
Kafka's replay: absent fields keep their value, every record increments the partition epoch, and a
record with a leader increments the leader epoch.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from immutables import Map

from quorum_node.controller import reassignment
from quorum_node.controller.partition_leader import (
    Candidates,
    Elected,
    Election,
    elect,
    kept_or_first,
)
from quorum_node.image.partition import Partition
from quorum_node.records.metadata import (
    LEADER_UNCHANGED,
    NO_LEADER,
    RECOVERING,
    RECOVERY_UNCHANGED,
    PartitionChangeRecord,
)
from quorum_node.schema.schema import value

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ChangeRules:
    """Requirements of the finalized features."""

    directories: bool = True
    eligible_leader_replicas: bool = False
    bump_on_shrink: bool = False
    """Brokers before metadata version 3.6 need a new leader epoch when the ISR shrinks (KAFKA-15021)."""


@value
class Wanted:
    """Wanted state of a partition; None leaves a field as it is."""

    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    recovery_state: int | None = None
    directories: Mapping[int, UUID] = Map()
    """Present log directory of each replica, by broker."""
    unclean_shutdown: Collection[int] = ()
    """Replicas that lost unflushed data: they can't be elected any more."""


@value
class Circumstances:
    """Conditions of a decision besides the partition itself."""

    is_acceptable: Callable[[int], bool]
    """Whether a replica of this partition can lead: its broker is active, and its directory online."""
    default_directory: Callable[[int], UUID]
    election: Election = Election.ONLINE
    min_isr: int = 1
    rules: ChangeRules = ChangeRules()


def change_partition(
    topic_id: UUID, partition_id: int, now: Partition, wanted: Wanted, given: Circumstances
) -> PartitionChangeRecord | None:
    """The record that changes `now` into the wanted state; None if nothing differs.

    1. A reassignment ends if the wanted ISR completes it.
    2. The leader is elected from the remaining replicas. If it is the whole target of a reassignment, this ends too.
    3. All differences are written.
    """
    rules = given.rules
    isr = wanted.isr if wanted.isr is not None else now.isr
    move = reassignment.Move(
        wanted.replicas if wanted.replicas is not None else now.replicas,
        wanted.removing if wanted.removing is not None else now.removing_replicas,
        wanted.adding if wanted.adding is not None else now.adding_replicas,
    )
    ended = reassignment.end(move, isr)
    if ended is not None:
        move, isr = reassignment.Move(ended.replicas), ended.isr
    eligible = _eligible(now, isr, wanted, given) if rules.eligible_leader_replicas else ()
    last_known = now.last_known_elr or ()
    last_leader = last_known[0] if len(last_known) == 1 else NO_LEADER
    elected = elect(
        Candidates(
            now.leader,
            move.replicas,
            isr,
            eligible,
            last_leader if rules.eligible_leader_replicas else NO_LEADER,
        ),
        given.is_acceptable,
        given.election,
    )
    moved = elected.leader != now.leader
    isr, eligible = _after_election(elected, isr, eligible, moved)
    if ended is None and (ended := reassignment.end(move, isr)) is not None:
        # the new leader, the only member of the ISR, is the whole target
        move = reassignment.Move(ended.replicas)
    # The broker of a removed replica deletes its log. Added again before the ISR is complete, the replica could be
    # elected with an empty one, as by a stock 4.3 controller.
    eligible = tuple(each for each in eligible if each in move.replicas)
    if not isr and not rules.eligible_leader_replicas:
        # the last members of the ISR stay in it: only they can be elected without data loss
        isr = now.isr
    leader = elected.leader if moved else LEADER_UNCHANGED
    if not moved and _needs_new_epoch(now, move.replicas, isr, rules):
        leader = now.leader
    recovery = RECOVERING if moved and elected.unclean else now.leader_recovery_state
    if wanted.recovery_state not in (None, now.leader_recovery_state):
        recovery = wanted.recovery_state
    directories = _directories(now, move.replicas, wanted, given) if rules.directories else None
    record = PartitionChangeRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        isr=_changed(now.isr, isr),
        leader=leader,
        replicas=_changed(now.replicas, move.replicas),
        removing_replicas=_changed(now.removing_replicas, move.removing),
        adding_replicas=_changed(now.adding_replicas, move.adding),
        leader_recovery_state=(
            RECOVERY_UNCHANGED if recovery == now.leader_recovery_state else recovery
        ),
        directories=_changed(now.directories, directories),
        eligible_leader_replicas=_changed(now.eligible_leader_replicas or (), eligible),
        last_known_elr=_last_known(now, leader, rules),
    )
    return None if _is_unchanged(record) else record


def shrink_isr(
    topic_id: UUID, partition_id: int, now: Partition, isr: tuple[int, ...], given: Circumstances
) -> PartitionChangeRecord | None:
    """A faster form of `change_partition` for a smaller ISR, where nothing else can change (a
    quarter of the time).

    This is the common case after a failed broker: no partition is in reassignment, and the ISR
    keeps a member that can lead.
    """
    rules = given.rules
    if (
        (rules.eligible_leader_replicas and len(isr) < given.min_isr)
        or now.last_known_elr
        or rules.bump_on_shrink
        or given.election is Election.PREFERRED
        or now.removing_replicas
        or now.adding_replicas
        or now.eligible_leader_replicas
    ):
        return change_partition(topic_id, partition_id, now, Wanted(isr=isr), given)
    leader = kept_or_first(now.leader, now.replicas, isr, given.is_acceptable)
    if leader == NO_LEADER:
        return change_partition(topic_id, partition_id, now, Wanted(isr=isr), given)
    changed = None if isr == now.isr else isr
    if leader != now.leader:
        return PartitionChangeRecord(
            partition_id=partition_id, topic_id=topic_id, isr=changed, leader=leader
        )
    if changed is None:
        return None
    return PartitionChangeRecord(partition_id=partition_id, topic_id=topic_id, isr=changed)


def _after_election(
    elected: Elected, isr: tuple[int, ...], eligible: tuple[int, ...], moved: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A leader that was elected from outside the ISR is its only member."""
    if not moved or elected.leader == NO_LEADER or elected.leader in isr:
        return isr, eligible
    if elected.unclean:
        return (elected.leader,), ()
    return (elected.leader,), tuple(each for each in eligible if each != elected.leader)


def _needs_new_epoch(
    now: Partition, replicas: tuple[int, ...], isr: tuple[int, ...], rules: ChangeRules
) -> bool:
    """Whether a leader that stays needs a new leader epoch, so that a removed replica learns of its
    removal.
    """
    if replicas != now.replicas and not set(now.replicas) <= set(replicas):
        return True
    return rules.bump_on_shrink and not set(now.isr) <= set(isr)


def _eligible(
    now: Partition, isr: tuple[int, ...], wanted: Wanted, given: Circumstances
) -> tuple[int, ...]:
    """Replicas that left the ISR below `min.insync.replicas`: no message was acknowledged without
    them since.
    """
    if len(isr) >= given.min_isr:
        return ()
    known = {*(now.eligible_leader_replicas or ()), *now.isr}
    return tuple(sorted(known - {*isr, *wanted.unclean_shutdown}))


def _last_known(now: Partition, leader: int, rules: ChangeRules) -> tuple[int, ...] | None:
    """The last known leader: set when a partition loses its leader, and cleared with the next one.

    `leader` is that of the record. If a partition loses its leader repeatedly, the first one stays.
    """
    if not rules.eligible_leader_replicas:
        return None
    if leader == NO_LEADER and not now.last_known_elr:
        return (now.leader,)
    if leader >= 0 and now.last_known_elr:
        return ()
    return None


def _directories(
    now: Partition, replicas: tuple[int, ...], wanted: Wanted, given: Circumstances
) -> tuple[UUID, ...]:
    if replicas == now.replicas and not wanted.directories:
        return now.directories
    known = dict(zip(now.replicas, now.directories, strict=False))
    known.update(wanted.directories)
    return tuple(
        known[each] if each in known else given.default_directory(each) for each in replicas
    )


def _changed(now: tuple[_T, ...], then: tuple[_T, ...] | None) -> tuple[_T, ...] | None:
    return None if then is None or then == now else then


def _is_unchanged(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == LEADER_UNCHANGED
        and record.leader_recovery_state == RECOVERY_UNCHANGED
        and record.isr is None
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.directories is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
    )
