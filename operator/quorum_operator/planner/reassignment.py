"""The plan of a PartitionReassignment: where the partitions are in, exactly one step out. PURE.

Owns what becomes of each partition and how many begin at once. Remembers nothing: whether a partition has begun,
has arrived or can't be moved follows from where it is now and which brokers there are, so a restarted operator, or
a second one, goes on from there. What can't work is found here and never sent, so it is not tried again and again.

A move is the controller's: it is in its log, and ends without the operator.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from quorum_operator.reassignment_crd import ReassignmentPhase

UNKNOWN_PARTITION = "UnknownPartition"
UNKNOWN_BROKER = "UnknownBroker"


class Target(NamedTuple):
    """The replicas that a partition shall have."""

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
class Place:
    """Where a partition is; while it moves, the replicas that leave stand last."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_moving(self) -> bool:
        """Whether replicas are on their way in or out."""
        return bool(self.adding or self.removing)

    @property
    def heading(self) -> tuple[int, ...]:
        """The replicas when it has arrived."""
        return tuple(each for each in self.replicas if each not in self.removing)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the quorum said at one point in time."""

    places: Mapping[tuple[str, int], Place]
    """Those of the partitions that there are."""
    fenced: Mapping[int, bool]
    """Every registered broker; whether it is fenced."""
    moving: int
    """Partitions of the cluster that move, whoever moves them."""


class Problem(NamedTuple):
    """A partition that can't be moved as it is wanted."""

    topic: str
    partition: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Tally:
    """Every target is in exactly one of these."""

    done: tuple[Target, ...]
    moving: tuple[Target, ...]
    """On their way to where they are wanted."""
    elsewhere: tuple[Target, ...]
    """On their way to somewhere else: somebody else moves them, and they wait for the end of that."""
    waiting: tuple[Target, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """Of one partition, if it still has the replicas `expected`; None as `replicas` cancels its move."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None
    expected: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BeginMoves:
    """Let these partitions move, unless more than `max_moving` of the cluster would."""

    changes: tuple[Change, ...]
    max_moving: int
    reason: str


@dataclass(frozen=True, slots=True)
class CancelMoves:
    """Take these partitions back to where they began."""

    changes: tuple[Change, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Await:
    """Nothing to do before something else has happened."""

    reason: str


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing to do ever again."""

    phase: ReassignmentPhase
    reason: str


Step = BeginMoves | CancelMoves | Await | Finished


def tally(wanted: Wanted, cluster: Cluster) -> Tally:
    """What has become of each partition, in the order of the spec."""
    done: list[Target] = []
    moving: list[Target] = []
    elsewhere: list[Target] = []
    waiting: list[Target] = []
    problems: list[Problem] = []
    for target in wanted.targets:
        place = cluster.places.get((target.topic, target.partition))
        if place is not None and place.is_moving:
            (moving if place.heading == target.replicas else elsewhere).append(target)
        elif place is not None and place.replicas == target.replicas:
            done.append(target)
        elif (problem := _problem(target, place, cluster.fenced)) is not None:
            problems.append(problem)
        else:
            waiting.append(target)
    return Tally(tuple(done), tuple(moving), tuple(elsewhere), tuple(waiting), tuple(problems))


def plan(wanted: Wanted, cluster: Cluster, found: Tally) -> Step:
    """The one step to take now. `found` is the tally of the two."""
    if wanted.cancel:
        return _cancel(cluster, found)
    left = len(found.moving) + len(found.elsewhere) + len(found.waiting)
    if left == 0:
        return _finished(wanted, found)
    if wanted.paused:
        return Await(f"spec.paused is set: {len(found.moving)} partitions go on to their end")
    room = wanted.max_moving - cluster.moving
    if not found.waiting:
        return Await(_under_way(cluster, found))
    if room <= 0:
        text = f"{cluster.moving} partitions of the cluster are moving, spec.maxMovingPartitions is"
        return Await(f"{text} {wanted.max_moving}; {_under_way(cluster, found)}")
    changes = tuple(
        Change(each.topic, each.partition, each.replicas, _place(cluster, each).replicas)
        for each in found.waiting[:room]
    )
    return BeginMoves(changes, wanted.max_moving, f"{len(changes)} partitions begin to move")


def lagging(cluster: Cluster, moving: Iterable[Target]) -> tuple[int, ...]:
    """Brokers that partitions wait for: added, and not in sync yet."""
    brokers: set[int] = set()
    for each in moving:
        place = _place(cluster, each)
        brokers |= set(place.heading) - set(place.isr)
    return tuple(sorted(brokers))


def _cancel(cluster: Cluster, found: Tally) -> Step:
    if not found.moving:
        done = len(found.done)
        return Finished(
            ReassignmentPhase.CANCELLED, f"cancelled; {done} partitions had arrived before"
        )
    changes = tuple(
        Change(each.topic, each.partition, None, _place(cluster, each).replicas)
        for each in found.moving
    )
    return CancelMoves(changes, f"spec.cancel is set: {len(changes)} partitions go back")


def _finished(wanted: Wanted, found: Tally) -> Step:
    total, failed = len(wanted.targets), len(found.problems)
    if failed:
        text = f"{failed} of {total} partitions can't be moved, {len(found.done)} have arrived"
        return Finished(ReassignmentPhase.FAILED, text)
    return Finished(ReassignmentPhase.COMPLETED, f"all {total} partitions have arrived")


def _under_way(cluster: Cluster, found: Tally) -> str:
    text = f"{len(found.moving)} partitions are on their way"
    if found.elsewhere:
        text += f", {len(found.elsewhere)} are being moved elsewhere by somebody else"
    brokers = lagging(cluster, found.moving)
    if brokers:
        text += f"; not in sync yet: {', '.join(_broker(cluster, each) for each in brokers[:10])}"
    return text


def _broker(cluster: Cluster, broker: int) -> str:
    fenced = cluster.fenced.get(broker)
    note = " (not registered)" if fenced is None else " (fenced: bring it back)" if fenced else ""
    return f"broker {broker}{note}"


def _problem(target: Target, place: Place | None, brokers: Mapping[int, bool]) -> Problem | None:
    if place is None:
        text = f"there is no partition {target.topic}-{target.partition}"
        return Problem(target.topic, target.partition, UNKNOWN_PARTITION, text)
    unknown = [str(each) for each in target.replicas if each not in brokers]
    if unknown:
        text = f"broker {', '.join(unknown)} is not registered"
        return Problem(target.topic, target.partition, UNKNOWN_BROKER, text)
    return None


def _place(cluster: Cluster, target: Target) -> Place:
    return cluster.places[target.topic, target.partition]
