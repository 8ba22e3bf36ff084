"""A timeline made by one loop over all records: the reference for the pipeline's, which works on merged spans."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple
from uuid import UUID

from quorum_node.image.transactions import BOUNDARIES
from quorum_node.records import metadata as md
from quorum_node.records.control import LeaderChange, VotersRecord
from quorum_node.records.identity import ReplicaKey, uuid_text
from quorum_pipeline.timeline.events import (
    BROKER_DOWN,
    BROKER_GONE,
    ELECTION,
    OFFLINE,
    REASSIGNMENT,
    SHUTDOWN,
    TOPIC_CREATED,
    TOPIC_DELETED,
    UNCLEAN,
    VOTER_ADDED,
    VOTER_REMOVED,
    VOTER_REPLACED,
    Event,
)  # fmt: skip

_CONTROL: Final = frozenset((LeaderChange, VotersRecord))


class At(NamedTuple):
    """Position of a record."""

    offset: int
    epoch: int
    timestamp_ms: int


class PlainTimeline:
    """Takes every record of a log, in order; `events` gives what happened."""

    def __init__(self) -> None:
        self._done: list[Event] = []
        self._open: dict[tuple[str, str], Event] = {}
        self._last: At | None = None
        self._leader: int | None = None
        self._voters: dict[ReplicaKey, None] | None = None
        self._names: dict[UUID, str] = {}
        self._brokers: dict[int, int | None] = {}
        """Broker → epoch of its registration; None: it was unregistered."""
        self._held: list[tuple[At, object]] | None = None
        """Records of the open transaction; None: none is open."""
        self._moving: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        """Partition → replicas on their way in and out."""
        self._handlers: dict[type, Callable[[At, Any], None]] = {
            LeaderChange: self._leader_change,
            VotersRecord: self._voters_record,
            md.RegisterBrokerRecord: self._register,
            md.UnregisterBrokerRecord: self._unregister,
            md.BrokerRegistrationChangeRecord: self._registration_change,
            md.FenceBrokerRecord: self._fence,
            md.UnfenceBrokerRecord: self._fence,
            md.TopicRecord: self._topic,
            md.RemoveTopicRecord: self._remove_topic,
            md.PartitionRecord: self._partition,
            md.PartitionChangeRecord: self._partition_change,
        }

    def take(self, at: At, record: object) -> None:
        """The next record."""
        kind = type(record)
        if kind in BOUNDARIES:
            held, self._held = self._held or [], None
            if kind is md.EndTransactionRecord:
                for place, each in held:
                    self._handle(place, each)
            elif kind is md.BeginTransactionRecord:
                self._held = []
        elif self._held is not None and kind not in _CONTROL:
            if kind in self._handlers:
                self._held.append((at, record))
        else:
            self._handle(at, record)
        self._last = at

    def _handle(self, at: At, record: object) -> None:
        handler = self._handlers.get(type(record))
        if handler is not None:
            handler(at, record)

    def events(self) -> list[Event]:
        """By the time at which they began; what still goes on, too."""
        every = [*self._done, *self._open.values()]
        return sorted(every, key=lambda each: (each.begin_offset, each.kind, each.subject))

    # -- what records say

    def _leader_change(self, at: At, record: LeaderChange) -> None:
        last = self._last or at
        before = "nobody" if self._leader is None else f"node {self._leader}"
        detail = f"epoch {at.epoch}, after {before}"
        subject = f"node {record.leader_id}"
        at_most_ms = max(at.timestamp_ms - last.timestamp_ms, 0)
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
        """Of one id another replica came or went before: together that is a replacement."""
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
        """The older form of a change."""
        if not self._concerns(record.id, record.epoch):
            return
        subject = f"broker {record.id}"
        if isinstance(record, md.FenceBrokerRecord):
            self._down(at, subject)
        else:
            self._up(at, subject)

    def _concerns(self, broker_id: int, epoch: int) -> bool:
        """Whether a change is one of the registration that is in force."""
        return self._brokers.setdefault(broker_id, epoch) == epoch

    def _down(self, at: At, subject: str) -> None:
        self._end(SHUTDOWN, subject, at)
        self._begin(BROKER_DOWN, subject, at)

    def _up(self, at: At, subject: str) -> None:
        self._end(SHUTDOWN, subject, at)
        self._end(BROKER_DOWN, subject, at)

    def _topic(self, at: At, record: md.TopicRecord) -> None:
        self._names[record.topic_id] = record.name
        self._instant(TOPIC_CREATED, record.name, at)

    def _remove_topic(self, at: At, record: md.RemoveTopicRecord) -> None:
        name = self._names.pop(record.topic_id, uuid_text(record.topic_id))
        for kind, subject in list(self._open):
            if subject.rpartition("-")[0] == name and kind in (OFFLINE, UNCLEAN, REASSIGNMENT):
                self._end(kind, subject, at)
        self._instant(TOPIC_DELETED, name, at)

    def _partition(self, at: At, record: md.PartitionRecord) -> None:
        subject = self._partition_name(record)
        self._toggle(OFFLINE, subject, at, record.leader == md.NO_LEADER)
        unclean = record.leader_recovery_state == md.RECOVERING
        self._toggle(UNCLEAN, subject, at, unclean, f"leader {record.leader}")
        self._moves(subject, at, record.adding_replicas, record.removing_replicas, record.replicas)

    def _partition_change(self, at: At, record: md.PartitionChangeRecord) -> None:
        subject = self._partition_name(record)
        if record.leader != md.LEADER_UNCHANGED:
            self._toggle(OFFLINE, subject, at, record.leader == md.NO_LEADER)
        if record.leader_recovery_state != md.RECOVERY_UNCHANGED:
            unclean = record.leader_recovery_state == md.RECOVERING
            self._toggle(UNCLEAN, subject, at, unclean, f"leader {record.leader}")
        self._moves(subject, at, record.adding_replicas, record.removing_replicas, record.replicas)

    def _moves(
        self,
        subject: str,
        at: At,
        adding: tuple[int, ...] | None,
        removing: tuple[int, ...] | None,
        replicas: tuple[int, ...] | None,
    ) -> None:
        before = self._moving.pop(subject, ((), ()))
        now = (
            before[0] if adding is None else adding,
            before[1] if removing is None else removing,
        )
        if any(now):
            self._moving[subject] = now
        detail = f"to {list(replicas)}" if replicas else ""
        self._toggle(REASSIGNMENT, subject, at, any(now), detail)

    def _partition_name(self, record: Any) -> str:
        name = self._names.get(record.topic_id, uuid_text(record.topic_id))
        return f"{name}-{record.partition_id}"

    # -- beginning and ending

    def _toggle(self, kind: str, subject: str, at: At, on: bool, detail: str = "") -> None:
        if on:
            self._begin(kind, subject, at, detail)
        else:
            self._end(kind, subject, at)

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
