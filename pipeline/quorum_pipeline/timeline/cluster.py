"""Events of voters and brokers, from records. PURE.

Owns which records begin and end an event. A change of a broker applies only to the registration with its epoch, as in
the image. These records are few and are processed as objects; records of topics and partitions are many and are
processed as columns (`edges.py`, `partitions.py`).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from quorum_node.records import metadata as md
from quorum_node.records.control import LeaderChange, VotersRecord
from quorum_node.records.identity import ReplicaKey, uuid_text
from quorum_pipeline.timeline.events import (
    BROKER_DOWN,
    BROKER_GONE,
    ELECTION,
    SHUTDOWN,
    VOTER_ADDED,
    VOTER_REMOVED,
    VOTER_REPLACED,
    Event,
    since,
)

BROKER_RECORDS = (
    md.RegisterBrokerRecord, md.UnregisterBrokerRecord, md.BrokerRegistrationChangeRecord,
    md.FenceBrokerRecord, md.UnfenceBrokerRecord,
)  # fmt: skip


class At(NamedTuple):
    """Position and time of a record."""

    offset: int
    epoch: int
    timestamp_ms: int


class ClusterTimeline:
    """Derives events from a log's records of voters and brokers, which `take` reads in order; `events` returns the events.

    The state before a log that does not begin at offset 0 is in a snapshot: `know` reads its records at its end offset. Until
    then a change of an unknown broker is assumed to belong to its current registration.
    """

    def __init__(self) -> None:
        self._done: list[Event] = []
        self._open: dict[tuple[str, str], Event] = {}
        self._before_ms = 0
        self._leader: int | None = None
        self._voters: dict[ReplicaKey, None] | None = None
        self._brokers: dict[int, int | None] = {}
        """Broker → epoch of its registration; None: it was unregistered."""
        self._handlers: dict[type, Callable[[At, Any], None]] = {
            LeaderChange: self._leader_change,
            VotersRecord: self._voters_record,
            md.RegisterBrokerRecord: self._register,
            md.UnregisterBrokerRecord: self._unregister,
            md.BrokerRegistrationChangeRecord: self._registration_change,
            md.FenceBrokerRecord: self._fence,
            md.UnfenceBrokerRecord: self._fence,
        }

    def know(self, at: At, records: Iterable[object]) -> None:
        """Read the records of a snapshot. Open events that were unknown so far began at some time before `at`."""
        done, known = self._done.copy(), set(self._open)
        for record in records:
            if isinstance(record, md.RegisterBrokerRecord):
                self._registered(at, record)
            else:
                self._handle(at, record)
        self._done = done
        origin = since(at.offset)
        for key in self._open.keys() - known:
            event = self._open[key]
            detail = f"{event.detail}, {origin}" if event.detail else origin
            self._open[key] = replace(event, detail=detail)

    def take(self, at: At, record: object, before_ms: int | None = None) -> None:
        """Read the next record of a voter or broker; `before_ms`: time of the previous record of any type."""
        self._before_ms = at.timestamp_ms if before_ms is None else before_ms
        self._handle(at, record)

    def _handle(self, at: At, record: object) -> None:
        handler = self._handlers.get(type(record))
        if handler is not None:
            handler(at, record)

    def events(self) -> list[Event]:
        """Return all events, unordered, including those that have not ended."""
        return [*self._done, *self._open.values()]

    # -- handlers of records

    def _leader_change(self, at: At, record: LeaderChange) -> None:
        before = "the first leader" if self._leader is None else f"after node {self._leader}"
        detail = f"epoch {at.epoch}, {before}"
        subject = f"node {record.leader_id}"
        at_most_ms = max(at.timestamp_ms - self._before_ms, 0)
        self._instant(ELECTION, subject, at, detail, at_most_ms)
        self._leader = record.leader_id

    def _voters_record(self, at: At, record: VotersRecord) -> None:
        now = dict.fromkeys(voter.key for voter in record.voters)
        before = self._voters
        self._voters = now
        if before is None:
            return
        for key in now.keys() - before.keys():
            self._changed_voter(at, key, VOTER_ADDED, VOTER_REMOVED)
        for key in before.keys() - now.keys():
            self._changed_voter(at, key, VOTER_REMOVED, VOTER_ADDED)

    def _changed_voter(self, at: At, key: ReplicaKey, kind: str, other: str) -> None:
        """Add the change of a voter. It is a replacement if it follows the opposite change of another replica with the same id."""
        subject = f"node {key.id}"
        uuid = uuid_text(key.uuid) if key.uuid else "?"
        half = next(
            (
                each
                for each in reversed(self._done)
                if each.subject == subject and each.kind in (VOTER_ADDED, VOTER_REMOVED)
            ),
            None,
        )
        if half is not None and half.kind == other and uuid not in half.detail:
            self._done.remove(half)
            detail = f"{half.detail}, {_verb(kind)} {uuid}"
            ended = replace(
                half,
                kind=VOTER_REPLACED,
                end_ms=at.timestamp_ms,
                end_offset=at.offset,
                detail=detail,
            )
            self._done.append(ended)
            return
        self._instant(kind, subject, at, f"{_verb(kind)} {uuid}")

    def _register(self, at: At, record: md.RegisterBrokerRecord) -> None:
        subject = f"broker {record.broker_id}"
        self._end(SHUTDOWN, subject, at)
        if not record.fenced:
            self._up(at, subject)
        elif self._brokers.get(record.broker_id) is not None:
            self._begin(BROKER_DOWN, subject, at, "it registered again")
        self._brokers[record.broker_id] = record.broker_epoch

    def _registered(self, at: At, record: md.RegisterBrokerRecord) -> None:
        """Read a broker's registration in a snapshot: its state began at some earlier time."""
        self._brokers[record.broker_id] = record.broker_epoch
        subject = f"broker {record.broker_id}"
        if record.fenced:
            self._begin(BROKER_DOWN, subject, at)
        elif record.in_controlled_shutdown:
            self._begin(SHUTDOWN, subject, at)

    def _unregister(self, at: At, record: md.UnregisterBrokerRecord) -> None:
        subject = f"broker {record.broker_id}"
        self._brokers[record.broker_id] = None
        self._up(at, subject)
        self._instant(BROKER_GONE, subject, at)

    def _registration_change(self, at: At, record: md.BrokerRegistrationChangeRecord) -> None:
        if not self._concerns(record.broker_id, record.broker_epoch):
            return
        subject = f"broker {record.broker_id}"
        if record.in_controlled_shutdown:
            self._begin(SHUTDOWN, subject, at)
        if record.fenced > 0:
            self._down(at, subject)
        elif record.fenced < 0:
            self._up(at, subject)

    def _fence(self, at: At, record: md.FenceBrokerRecord | md.UnfenceBrokerRecord) -> None:
        """Read the older form of a registration change."""
        if not self._concerns(record.id, record.epoch):
            return
        subject = f"broker {record.id}"
        if isinstance(record, md.FenceBrokerRecord):
            self._down(at, subject)
        else:
            self._up(at, subject)

    def _concerns(self, broker_id: int, epoch: int) -> bool:
        """Return whether a change belongs to the current registration."""
        return self._brokers.setdefault(broker_id, epoch) == epoch

    def _down(self, at: At, subject: str) -> None:
        self._end(SHUTDOWN, subject, at)
        self._begin(BROKER_DOWN, subject, at)

    def _up(self, at: At, subject: str) -> None:
        self._end(SHUTDOWN, subject, at)
        self._end(BROKER_DOWN, subject, at)

    # -- beginning and ending

    def _begin(self, kind: str, subject: str, at: At, detail: str = "") -> None:
        if (kind, subject) not in self._open:
            event = Event(kind, subject, at.timestamp_ms, None, at.offset, None, detail)
            self._open[kind, subject] = event

    def _end(self, kind: str, subject: str, at: At) -> None:
        event = self._open.pop((kind, subject), None)
        if event is not None:
            self._done.append(replace(event, end_ms=at.timestamp_ms, end_offset=at.offset))

    def _instant(
        self, kind: str, subject: str, at: At, detail: str = "", at_most_ms: int | None = None
    ) -> None:
        time_ms, offset = at.timestamp_ms, at.offset
        self._done.append(
            Event(kind, subject, time_ms, time_ms, offset, offset, detail, at_most_ms)
        )


def _verb(kind: str) -> str:
    return kind.removeprefix("voter ")
