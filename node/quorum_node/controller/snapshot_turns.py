"""Turns for writing snapshots: one controller at a time, the active one last. PURE.

Owns the active controller's view of the turns. It is soft state: a new active controller gets all
reports within one heartbeat, and decides nothing before. Must not know how a snapshot is written or
leadership handed over.
Source: KIP-631, "Snapshot Implementation" (K631-07).

1. A turn begins only when no other replica is writing, or has an unfinished turn.
2. The active controller waits until no other one is due. Then it hands over, if another voter can
take over; the next active controller gives it its turn. If none can (it is the only one, or the
others are down, behind, or witnesses), or if it becomes leader again with the same snapshot, it
writes nevertheless.
3. While the loss of one more voter would cost the majority, the limits of all are raised
(`strained`).

A turn ends with a heartbeat that reports another snapshot, or that none is being written. A replica
that sends no heartbeats, or takes very long, does not block the others.
Turns belong to replica keys: while two replicas have one id, (3,U3) and (3,U3') are two writers. A
heartbeat without a replica UUID (of an older node) can come from either, so it does not end a turn
of its id. That turn ends when no heartbeat of the id has reported writing for the time after which
a replica counts as silent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from quorum_node.quorum_arithmetic import tolerance
from quorum_node.records.identity import ReplicaKey

SILENT_PERIODS = 5
"""Heartbeats without a report after which a replica does not count any more."""
SETTLING_PERIODS = 1.5
"""For this time a new active controller only collects reports: a snapshot may be in progress."""
LONGEST_TURN_MS = 600_000.0
AFTER_A_FAILURE_MS = 60_000.0


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    """`offset`: end of the newest snapshot. The other fields refer to the time since; -1: not known."""

    offset: int
    record_bytes: int
    age_ms: float
    writing: bool


class Turn(Enum):
    """Decision of the active controller about its own snapshot."""

    WAIT = "wait"
    HAND_OVER = "hand over"
    BEGIN = "begin"


@dataclass(slots=True)
class _Member:
    """`turn_ms`: when it began to write, or got its turn.

    `not_before_ms`: set after a turn without a snapshot.
    """

    progress: SnapshotProgress
    heard_ms: float
    turn_ms: float | None = None
    told: bool = False
    not_before_ms: float = 0.0
    wrote_ms: float = 0.0
    """When it last got a turn, or last reported that it writes."""


IsDue = Callable[[SnapshotProgress], bool]


class SnapshotTurns:
    """State of one active controller, from `began_ms` on.

    `own`: its own progress. `period_ms`: heartbeat interval.
    """

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
        """Process a report.

        Returns whether the sender has to begin a snapshot now. A bare id: the replica UUID was not sent.
        """
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
        """Decision on the active controller's own turn."""
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
        """Whether the controller is of this software, and sends heartbeats."""
        member = self._members.get(key) or self._members.get(ReplicaKey(key.id))
        return member is not None and now_ms - member.heard_ms < self._silent_ms

    def _note_any_of(self, member: _Member, progress: SnapshotProgress, now_ms: float) -> None:
        """A report of an unknown one of the replicas with this id: the other one may be writing."""
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
        """Whether a replica is writing, as far as is known."""
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
    """Whether voters are behind, so that the loss of one more would cost the majority."""
    return caught_up < voters and tolerance(voters, caught_up) < 1
