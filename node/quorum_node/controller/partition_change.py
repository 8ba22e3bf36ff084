"""The record that turns a partition's state into another one: the only place where PartitionChangeRecords are made.

PURE. Owns what has to change together: the leader with the ISR, the leader epoch with the replicas, the end of
a reassignment with the ISR that completes it. Must not know why somebody wants a change. Who leads is
decided in `partition_leader.py`, the replica lists of a move in `reassignment.py`.
Source: KIP-631, "PartitionChangeRecord"; KIP-455, KIP-704 (recovery after an unclean election), KIP-858
(directories), KIP-966 (eligible leader replicas). What an absent field of the record means, and that replay
adds one to the partition epoch always and to the leader epoch when a leader is named, is Kafka's replay.
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
    """What the finalized features ask of a change."""

    directories: bool = True
    eligible_leader_replicas: bool = False
    bump_on_shrink: bool = False
    """Brokers before metadata version 3.6 need a new leader epoch when the ISR shrinks (KAFKA-15021)."""


@value
class Wanted:
    """What a partition shall be; None leaves it as it is."""

    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    recovery_state: int | None = None
    directories: Mapping[int, UUID] = Map()
    """Where replicas are now, by broker."""
    unclean_shutdown: Collection[int] = ()
    """Replicas that lost what was not flushed: they may not lead any more."""


@value
class Circumstances:
    """What a change is decided by, beside the partition itself."""

    is_acceptable: Callable[[int], bool]
    """Whether a replica of this partition could lead: alive, and its directory is online."""
    default_directory: Callable[[int], UUID]
    election: Election = Election.ONLINE
    min_isr: int = 1
    rules: ChangeRules = ChangeRules()


def change_partition(
    topic_id: UUID, partition_id: int, now: Partition, wanted: Wanted, given: Circumstances
) -> PartitionChangeRecord | None:
    """The record that brings `now` to what is wanted; None if it is that already.

    1. A reassignment ends if the ISR that is wanted completes it.
    2. The leader is elected from what is left.
    3. Everything that differs is written.
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
    if not isr and not rules.eligible_leader_replicas:
        isr = now.isr  # whoever was in sync last is remembered: only they may lead without a loss
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
    return None if _says_nothing(record) else record


def shrink_isr(
    topic_id: UUID, partition_id: int, now: Partition, isr: tuple[int, ...], given: Circumstances
) -> PartitionChangeRecord | None:
    """What `change_partition` says to an ISR with fewer replicas, in a quarter of the time where nothing else can change.

    That is what a failed broker means for its partitions: none of them moves, and somebody of the ISR is left to lead.
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
    """A leader from outside the ISR is alone in it."""
    if not moved or elected.leader == NO_LEADER or elected.leader in isr:
        return isr, eligible
    if elected.unclean:
        return (elected.leader,), ()
    return (elected.leader,), tuple(each for each in eligible if each != elected.leader)


def _needs_new_epoch(
    now: Partition, replicas: tuple[int, ...], isr: tuple[int, ...], rules: ChangeRules
) -> bool:
    """Whether a leader that stays must begin a new leader epoch: a replica that leaves has to hear of it."""
    if replicas != now.replicas and not set(now.replicas) <= set(replicas):
        return True
    return rules.bump_on_shrink and not set(now.isr) <= set(isr)


def _eligible(
    now: Partition, isr: tuple[int, ...], wanted: Wanted, given: Circumstances
) -> tuple[int, ...]:
    """Who left the ISR below `min.insync.replicas`: no message was acknowledged without them since."""
    if len(isr) >= given.min_isr:
        return ()
    return tuple(
        sorted(
            each
            for each in {*(now.eligible_leader_replicas or ()), *now.isr}
            if each not in isr and each not in wanted.unclean_shutdown
        )
    )


def _last_known(now: Partition, leader: int, rules: ChangeRules) -> tuple[int, ...] | None:
    """Who led is remembered when nobody leads any more, and forgotten with the next leader.

    `leader` is the record's. Of a partition that loses its leader again and again the first one stays.
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


def _says_nothing(record: PartitionChangeRecord) -> bool:
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
