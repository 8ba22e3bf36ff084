"""Whose turn it is to write a snapshot: one controller after the other, the active one last. PURE.

Owns the active controller's view of that. It is soft state: a new active controller hears of everybody within a
heartbeat, and decides nothing before. Must not know how a snapshot is written or leadership handed over.
Source: KIP-631, "Snapshot Implementation" (K631-07).

1. Nobody begins while another one writes, or was told to and has not said that it is done.
2. The active controller waits until nobody else is due. Then it hands over, if somebody can take over; the next
   active controller gives it its turn. If nobody can (it is alone, the others are down, behind or witnesses), or if it
   leads again with the same snapshot, it writes all the same.
3. While losing one more voter would cost the majority, everybody is due later (`strained`).

A turn ends with a heartbeat that tells another snapshot, or that none is being written any more. Who has fallen
silent, or takes very long, holds up nobody.

Turns are kept by replica key: while an id is doubled, (3,U3) and (3,U3') are two writers. A heartbeat without a replica
UUID (of a node before this rule) may come from either, so it ends no turn of its id by itself. That turn ends
when no heartbeat of the id has told of a snapshot in the making for as long as a replica needs to be called silent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from quorum_node.quorum_arithmetic import tolerance
from quorum_node.records.identity import ReplicaKey

SILENT_PERIODS = 5
"""Whoever was not heard of for so many heartbeats does not count."""
SETTLING_PERIODS = 1.5
"""So long a new active controller only listens: somebody may be writing."""
LONGEST_TURN_MS = 600_000.0
AFTER_A_FAILURE_MS = 60_000.0


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    """`offset`: end of the newest snapshot. The rest has happened since; -1: not known."""

    offset: int
    record_bytes: int
    age_ms: float
    writing: bool


class Turn(Enum):
    """What the active controller does about its own snapshot."""

    WAIT = "wait"
    HAND_OVER = "hand over"
    BEGIN = "begin"


@dataclass(slots=True)
class _Member:
    """`turn_ms`: since when it writes, or was told to. `not_before_ms`: its last turn gave nothing."""

    progress: SnapshotProgress
    heard_ms: float
    turn_ms: float | None = None
    told: bool = False
    not_before_ms: float = 0.0
    wrote_ms: float = 0.0
    """When it last was told to write, or said that it does."""


IsDue = Callable[[SnapshotProgress], bool]


class SnapshotTurns:
    """Of one active controller, from `began_ms` on. `own`: its own progress. `period_ms`: between heartbeats."""

    def __init__(
        self,
        is_due: IsDue,
        own: Callable[[], SnapshotProgress],
        began_ms: float,
        period_ms: float,
    ) -> None:
        self._is_due = is_due
        self._own = own
        self._settled_ms = began_ms + SETTLING_PERIODS * period_ms
        self._silent_ms = SILENT_PERIODS * period_ms
        self._members: dict[ReplicaKey, _Member] = {}

    def heartbeat(
        self, reporter: ReplicaKey | int, progress: SnapshotProgress, now_ms: float
    ) -> bool:
        """Somebody reports; whether it shall begin now. A bare id: its replica UUID is not told."""
        key = ReplicaKey(reporter) if isinstance(reporter, int) else reporter
        member = self._members.get(key)
        if member is None:
            member = self._members[key] = _Member(progress, now_ms)
        if key.uuid is None:
            self._note_any_of(member, progress, now_ms)
        else:
            _note(member, progress, now_ms)
        if progress.writing or now_ms < max(self._settled_ms, member.not_before_ms):
            return False
        if self._own().writing or self._busy(now_ms) or not self._is_due(progress):
            return False
        member.turn_ms = member.wrote_ms = now_ms
        member.told = True
        return True

    def own_turn(self, now_ms: float, *, single_voter: bool, can_hand_over: bool) -> Turn:
        """The active controller would like to begin."""
        if not self._is_due(self._own()):
            return Turn.WAIT
        if single_voter and not self._members:
            return Turn.BEGIN
        if now_ms < self._settled_ms or self._busy(now_ms):
            return Turn.WAIT
        if any(self.is_heard(each, now_ms) and self._waits(each, now_ms) for each in self._members):
            return Turn.WAIT
        return Turn.HAND_OVER if can_hand_over else Turn.BEGIN

    def is_heard(self, key: ReplicaKey, now_ms: float) -> bool:
        """Whether it reports: a controller of ours, and alive."""
        member = self._members.get(key) or self._members.get(ReplicaKey(key.id))
        return member is not None and now_ms - member.heard_ms < self._silent_ms

    def _note_any_of(self, member: _Member, progress: SnapshotProgress, now_ms: float) -> None:
        """A report of one of the replicas with this id: another one may be writing."""
        if progress.writing:
            member.wrote_ms = now_ms
        elif member.turn_ms is not None and now_ms - member.wrote_ms < self._silent_ms:
            member.heard_ms = now_ms
            return
        _note(member, progress, now_ms)

    def _waits(self, key: ReplicaKey, now_ms: float) -> bool:
        member = self._members[key]
        return now_ms >= member.not_before_ms and self._is_due(member.progress)

    def _busy(self, now_ms: float) -> bool:
        """Whether somebody writes, as far as is known."""
        return any(
            member.turn_ms is not None
            and now_ms - member.turn_ms < LONGEST_TURN_MS
            and self.is_heard(key, now_ms)
            for key, member in self._members.items()
        )


def _note(member: _Member, progress: SnapshotProgress, now_ms: float) -> None:
    before, member.progress, member.heard_ms = member.progress, progress, now_ms
    if progress.writing:
        member.turn_ms = now_ms if member.turn_ms is None else member.turn_ms
        return
    if member.told and progress.offset <= before.offset:
        member.not_before_ms = now_ms + AFTER_A_FAILURE_MS
    member.turn_ms, member.told = None, False


def is_strained(voters: int, caught_up: int) -> bool:
    """Whether voters are behind, and one more would cost the majority."""
    return caught_up < voters and tolerance(voters, caught_up) < 1
