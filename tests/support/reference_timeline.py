"""A timeline made by one loop over all records: the reference for the pipeline's, which works on merged spans.

Voters and brokers are those of `ClusterTimeline`, as in the pipeline, which takes their records one by one, too: the
tests of the effects of records state what it has to find.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from quorum_node.image.transactions import BOUNDARIES
from quorum_node.records import metadata as md
from quorum_node.records.control import LeaderChange, VotersRecord
from quorum_node.records.identity import uuid_text
from quorum_pipeline.timeline.cluster import BROKER_RECORDS, At, ClusterTimeline
from quorum_pipeline.timeline.events import (
    OFFLINE,
    REASSIGNMENT,
    TOPIC_CREATED,
    TOPIC_DELETED,
    UNCLEAN,
    Event,
)

_CONTROL: Final = frozenset((LeaderChange, VotersRecord))


class PlainTimeline:
    """Takes every record of a log, in order; `events` gives what happened."""

    def __init__(self) -> None:
        self._done: list[Event] = []
        self._open: dict[tuple[str, str], Event] = {}
        self._last: At | None = None
        self._cluster = ClusterTimeline()
        self._names: dict[UUID, str] = {}
        self._held: list[tuple[At, object]] | None = None
        """Records of the open transaction; None: none is open."""
        self._moving: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        """Partition → replicas on their way in and out."""
        self._handlers: dict[type, Callable[[At, Any], None]] = {
            **dict.fromkeys((*_CONTROL, *BROKER_RECORDS), self._of_the_cluster),
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
        every = [*self._done, *self._open.values(), *self._cluster.events()]
        return sorted(every, key=lambda each: (each.begin_offset, each.kind, each.subject))

    # -- what records say

    def _of_the_cluster(self, at: At, record: object) -> None:
        self._cluster.take(at, record, (self._last or at).timestamp_ms)

    def _topic(self, at: At, record: md.TopicRecord) -> None:
        self._names[record.topic_id] = record.name
        self._done.append(_instant(TOPIC_CREATED, record.name, at))

    def _remove_topic(self, at: At, record: md.RemoveTopicRecord) -> None:
        name = self._names.pop(record.topic_id, uuid_text(record.topic_id))
        for kind, subject in list(self._open):
            if subject.rpartition("-")[0] == name and kind in (OFFLINE, UNCLEAN, REASSIGNMENT):
                self._end(kind, subject, at)
        self._done.append(_instant(TOPIC_DELETED, name, at))

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


def _instant(kind: str, subject: str, at: At) -> Event:
    return Event(kind, subject, at.timestamp_ms, at.timestamp_ms, at.offset, at.offset)
