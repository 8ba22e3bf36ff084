"""The plan of a PartitionReassignment: state of the partitions in, exactly one step out. PURE.

Owns the classification of each partition and how many start at once. Stores nothing: whether a partition has started,
has arrived or can't be moved follows from its current state and the existing brokers, so a restarted or second
operator continues. Impossible moves are found here and never sent. A move is in the controller's log and completes
without the operator.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from quorum_operator.reassignment_crd import ReassignmentPhase

UNKNOWN_PARTITION = "UnknownPartition"
UNKNOWN_BROKER = "UnknownBroker"


class Target(NamedTuple):
    """The wanted replicas of a partition."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of the spec that planning reads."""

    targets: tuple[Target, ...]
    max_moving: int
    paused: bool = False
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """The current replicas of a partition; while it moves, those to be removed are last."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_moving(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding or self.removing)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The replicas after the move."""
        return tuple(each for each in self.replicas if each not in self.removing)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The state of the cluster at one point in time."""

    partitions: Mapping[tuple[str, int], PartitionReplicas]
    """Existing partitions."""
    fenced: Mapping[int, bool]
    """Registered brokers, and whether they are fenced."""
    moving: int
    """Number of moving partitions of the cluster, including those moved by other clients."""


class Problem(NamedTuple):
    """A partition that can't be moved as requested."""

    topic: str
    partition: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Tally:
    """A classification of the targets: each one is in exactly one class."""

    done: tuple[Target, ...]
    moving: tuple[Target, ...]
    """Moving to the wanted replicas."""
    elsewhere: tuple[Target, ...]
    """Moving to other replicas, started by another client. They wait for the end of that move."""
    waiting: tuple[Target, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one partition, conditional on its current replicas `expected`; `replicas` None cancels its move."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None
    expected: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BeginMoves:
    """Start to move these partitions, unless more than `max_moving` of the cluster would move."""

    changes: tuple[Change, ...]
    max_moving: int
    reason: str


@dataclass(frozen=True, slots=True)
class CancelMoves:
    """Cancel the moves of these partitions."""

    changes: tuple[Change, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Await:
    """Start nothing in this reconcile; `reason` says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing left to do."""

    phase: ReassignmentPhase
    reason: str


Step = BeginMoves | CancelMoves | Await | Finished


def tally(wanted: Wanted, cluster: Cluster) -> Tally:
    """Classify each partition, in the order of the spec."""
    done: list[Target] = []
    moving: list[Target] = []
    elsewhere: list[Target] = []
    waiting: list[Target] = []
    problems: list[Problem] = []
    for target in wanted.targets:
        found = cluster.partitions.get((target.topic, target.partition))
        if found is not None and found.is_moving:
            (moving if found.target_replicas == target.replicas else elsewhere).append(target)
        elif found is not None and found.replicas == target.replicas:
            done.append(target)
        elif (problem := _problem(target, found, cluster.fenced)) is not None:
            problems.append(problem)
        else:
            waiting.append(target)
    return Tally(tuple(done), tuple(moving), tuple(elsewhere), tuple(waiting), tuple(problems))


def plan(wanted: Wanted, cluster: Cluster, found: Tally) -> Step:
    """The next step. `found`: the classification."""
    if wanted.cancel:
        return _cancel(cluster, found)
    left = len(found.moving) + len(found.elsewhere) + len(found.waiting)
    if left == 0:
        return _finished(wanted, found)
    if wanted.paused:
        return Await(f"spec.paused is set: {len(found.moving)} moves in progress continue")
    room = wanted.max_moving - cluster.moving
    if not found.waiting:
        return Await(_under_way(cluster, found))
    if room <= 0:
        text = f"{cluster.moving} partitions of the cluster are moving, spec.maxMovingPartitions is"
        return Await(f"{text} {wanted.max_moving}; {_under_way(cluster, found)}")
    changes = tuple(
        Change(each.topic, each.partition, each.replicas, _replicas_of(cluster, each).replicas)
        for each in found.waiting[:room]
    )
    return BeginMoves(changes, wanted.max_moving, f"{len(changes)} partitions start to move")


def lagging(cluster: Cluster, moving: Iterable[Target]) -> tuple[int, ...]:
    """Brokers that partitions wait for: added but not in sync yet."""
    brokers: set[int] = set()
    for each in moving:
        found = _replicas_of(cluster, each)
        brokers |= set(found.target_replicas) - set(found.isr)
    return tuple(sorted(brokers))


def _cancel(cluster: Cluster, found: Tally) -> Step:
    if not found.moving:
        done = len(found.done)
        return Finished(
            ReassignmentPhase.CANCELLED, f"cancelled; {done} partitions had arrived before"
        )
    changes = tuple(
        Change(each.topic, each.partition, None, _replicas_of(cluster, each).replicas)
        for each in found.moving
    )
    return CancelMoves(changes, f"spec.cancel is set: {len(changes)} moves are cancelled")


def _finished(wanted: Wanted, found: Tally) -> Step:
    total, failed = len(wanted.targets), len(found.problems)
    if failed:
        text = f"{failed} of {total} partitions can't be moved, {len(found.done)} have arrived"
        return Finished(ReassignmentPhase.FAILED, text)
    return Finished(ReassignmentPhase.COMPLETED, f"all {total} partitions have arrived")


def _under_way(cluster: Cluster, found: Tally) -> str:
    text = f"{len(found.moving)} partitions are moving"
    if found.elsewhere:
        text += f", {len(found.elsewhere)} are being reassigned by another client"
    brokers = lagging(cluster, found.moving)
    if brokers:
        text += f"; not in sync yet: {', '.join(_broker(cluster, each) for each in brokers[:10])}"
    return text


def _broker(cluster: Cluster, broker: int) -> str:
    fenced = cluster.fenced.get(broker)
    note = " (not registered)" if fenced is None else " (fenced: bring it back)" if fenced else ""
    return f"broker {broker}{note}"


def _problem(
    target: Target, found: PartitionReplicas | None, brokers: Mapping[int, bool]
) -> Problem | None:
    if found is None:
        text = f"there is no partition {target.topic}-{target.partition}"
        return Problem(target.topic, target.partition, UNKNOWN_PARTITION, text)
    unknown = [str(each) for each in target.replicas if each not in brokers]
    if unknown:
        text = f"broker {', '.join(unknown)} is not registered"
        return Problem(target.topic, target.partition, UNKNOWN_BROKER, text)
    return None


def _replicas_of(cluster: Cluster, target: Target) -> PartitionReplicas:
    return cluster.partitions[target.topic, target.partition]
