"""Events of topics and partitions, from edges. PURE.

Owns start and end of events: offline without a leader, unclean until recovered, reassignment from the record that
adds or removes replicas to the one that completes it. The removal of a topic ends its events.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import pyarrow as pa

from quorum_pipeline.timeline.edges import (
    ADDING,
    NO_LEADER,
    NOTHING,
    RECOVERY,
    REMOVING,
    with_conditions,
)
from quorum_pipeline.timeline.events import (
    OFFLINE,
    REASSIGNMENT,
    TOPIC_CREATED,
    TOPIC_DELETED,
    UNCLEAN,
    Event,
    since,
)

CREATED_TOPICS = pa.schema(
    [("topic", pa.string()), ("offset", pa.int64()), ("time_ms", pa.int64()), ("name", pa.string())]
)
REMOVED_TOPICS = pa.schema(
    [("topic", pa.string()), ("offset", pa.int64()), ("time_ms", pa.int64())]
)
"""Schemas of created topics (CREATED_TOPICS) and removed topics (REMOVED_TOPICS)."""


_NEVER = 1 << 62


@dataclass(slots=True)
class _Topic:
    """A topic. `created`: offsets with the name from there on; `removed`: offsets and times (ms) of removals; both in order."""

    created: list[tuple[int, str]] = field(default_factory=list)
    removed: list[tuple[int, int]] = field(default_factory=list)

    def name_at(self, offset: int, topic_id: str) -> str:
        """Return its name at an offset, or its id if the log has no name for it there."""
        place = bisect_right(self.created, (offset, "\U0010ffff"))
        created = self.created[place - 1] if place else None
        removed = any((created[0] if created else -1) < each < offset for each, _ in self.removed)
        return topic_id if created is None or removed else created[1]

    def gone_behind(self, offset: int) -> tuple[int, int] | None:
        """Return offset and time of the next removal after an offset, or None."""
        place = bisect_right(self.removed, (offset, _NEVER))
        return self.removed[place] if place < len(self.removed) else None


def partition_events(
    edges: Sequence[pa.Table],
    created: Sequence[pa.Table],
    removed: Sequence[pa.Table],
    *,
    of_topics: bool = True,
) -> Iterator[Event]:
    """Yield the events of one bucket of topics, unordered. A topic without `time_ms` was created before the log's begin.
    Without `of_topics`, only events of partitions.
    """
    topics: dict[str, _Topic] = {}
    for row in (
        pa.concat_tables([CREATED_TOPICS.empty_table(), *created]).sort_by("offset").to_pylist()
    ):
        topics.setdefault(row["topic"], _Topic()).created.append((row["offset"], row["name"]))
        if row["time_ms"] is not None and of_topics:
            yield _instant(TOPIC_CREATED, row["name"], row)
    for row in (
        pa.concat_tables([REMOVED_TOPICS.empty_table(), *removed]).sort_by("offset").to_pylist()
    ):
        topic = topics.setdefault(row["topic"], _Topic())
        if of_topics:
            yield _instant(TOPIC_DELETED, topic.name_at(row["offset"], row["topic"]), row)
        topic.removed.append((row["offset"], row["time_ms"]))
    for topic_id, number, rows in with_conditions(edges):
        partition = _Partition(topic_id, number, topics.get(topic_id, _Topic()))
        for _, same in groupby(rows, lambda row: (row["offset"], row["known"])):
            yield from partition.take(list(same))
        yield from partition.rest()


def _instant(kind: str, subject: str, row: dict[str, Any]) -> Event:
    return Event(kind, subject, row["time_ms"], row["time_ms"], row["offset"], row["offset"])


class _Partition:
    """Derives the events of one partition from its edges, in order; the edges of one record are taken together."""

    def __init__(self, topic_id: str, number: int, topic: _Topic) -> None:
        self._topic_id, self._number, self._topic = topic_id, number, topic
        self._open: dict[str, Event] = {}
        self._moving = {ADDING: False, REMOVING: False}

    def take(self, edges: list[dict[str, Any]]) -> Iterator[Event]:
        """Read the edges of one record; yield the events that it ends."""
        at = edges[0]
        yield from self._removed(at["offset"])
        for edge in edges:
            kind, on = edge["kind"], edge["on"]
            if kind in (NO_LEADER, NOTHING):
                yield from self._toggle(OFFLINE, edge, "", on=on)
            if kind in (RECOVERY, NOTHING):
                yield from self._toggle(UNCLEAN, edge, f"leader {edge['leader']}", on=on)
            if kind == NOTHING:
                self._moving = {ADDING: False, REMOVING: False}
            elif kind in self._moving:
                self._moving[kind] = on
        replicas = next((edge["replicas"] for edge in edges if edge["replicas"]), None)
        detail = f"to {replicas}" if replicas else ""
        yield from self._toggle(REASSIGNMENT, at, detail, on=any(self._moving.values()))

    def rest(self) -> Iterator[Event]:
        """Yield the events that end with the topic, or have not ended."""
        yield from self._removed(_NEVER)
        yield from self._open.values()

    def _removed(self, offset: int) -> Iterator[Event]:
        """Yield the events that end with a removal of the topic before this offset."""
        began = min((each.begin_offset for each in self._open.values()), default=_NEVER)
        removal = self._topic.gone_behind(began)
        if removal is None or removal[0] >= offset:
            return
        yield from (_ended(each, *removal) for each in self._open.values())
        self._open.clear()
        self._moving = {ADDING: False, REMOVING: False}

    def _toggle(self, kind: str, at: dict[str, Any], detail: str, *, on: bool) -> Iterator[Event]:
        if on and kind not in self._open:
            name = self._topic.name_at(at["offset"], self._topic_id)
            details = [detail, since(at["offset"])] if at["known"] else [detail]
            self._open[kind] = Event(
                kind,
                f"{name}-{self._number}",
                at["time_ms"],
                None,
                at["offset"],
                None,
                ", ".join(filter(None, details)),
            )
        elif not on and kind in self._open:
            yield _ended(self._open.pop(kind), at["offset"], at["time_ms"])


def _ended(event: Event, offset: int, time_ms: int) -> Event:
    return replace(event, end_offset=offset, end_ms=time_ms)
