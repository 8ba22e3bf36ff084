"""Removal of offsets and groups: expired offsets, deletions by an administrator, deleted topics. PURE.

Owns the tombstones. Nothing is removed before its tombstone is stored: a consumer without a committed offset would
start at another position.
Source: KIP-211, KIP-229, KIP-496; the rules of a stock coordinator.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from quorum_node.coordinator.effects import Effects, Now
from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.group import ClassicGroup, GroupState
from quorum_node.coordinator.group_table import GroupTable
from quorum_node.coordinator.offsets import GroupRecords
from quorum_node.coordinator.requests import Committed, TopicPartition
from quorum_node.coordinator.settings import GroupSettings
from quorum_node.coordinator.stored_groups import tombstone_of
from quorum_node.coordinator.subscriptions import subscribed_topics
from quorum_node.records.group_records import GroupRecord

_EXAMINED_AT_ONCE = 500
"""Offsets that are examined in one piece of work. A piece makes at most one batch."""
_BATCH_BYTES = 500_000
"""Estimated size of a batch of tombstones, which has to be smaller than max.message.bytes."""
_RECORD_BYTES = 32
"""Of a tombstone of an offset, without names."""

Forgotten = Callable[[GroupError], None]
Exists = Callable[[str, UUID | None], bool]
"""Whether a topic of this name exists, and with this id, if it is known."""


class _Expiry(NamedTuple):
    idle_since_ms: int | None
    subscribed: frozenset[str]


class Forgetting:
    """Removals in all groups of one coordinator. Large ones are done in pieces: `go_on` does the next one."""

    def __init__(self, table: GroupTable, settings: GroupSettings, effects: Effects) -> None:
        self._table = table
        self._settings = settings
        self._effects = effects
        self._works: deque[Iterator[None]] = deque()
        self._is_cleaning = self._is_looking = False

    def go_on(self) -> bool:
        """Do the next piece of work; False if there is none."""
        if not self._works:
            return False
        self._begin(self._works.popleft())
        return True

    def forget_offsets(
        self, group_id: str, partitions: tuple[TopicPartition, ...], then: Forgotten
    ) -> None:
        """Remove offsets; not so many that they would hold the loop. `then` is called once, when all are removed or one removal failed."""
        batches = tuple(_batches(group_id, partitions))
        missing, worst = len(batches), GroupError.NONE

        def stored(error: GroupError) -> None:
            nonlocal missing, worst
            missing -= 1
            worst = worst if error is GroupError.NONE else error
            if not missing:
                then(worst)

        for batch in batches:
            self._forget(group_id, batch, stored)

    def forget_group(self, group: ClassicGroup, then: Forgotten = lambda error: None) -> None:
        """Remove a group without members, with its offsets: in one batch, if it is not too large."""
        self._begin(self._group_forgotten(group, then))

    def topics_deleted(self, topics: Mapping[str, UUID]) -> None:
        """Remove the offsets of deleted topics. Those of a later topic of the same name are kept."""
        for group_id, storing in self._table.offsets.all_being_stored():
            gone = tuple(each for each in storing if each.topic in topics)
            if gone:
                self._forget(group_id, gone)
        self._works.append(self._topics_forgotten(topics))

    def topics_missing(self, exists: Exists) -> None:
        """Remove the offsets of topics that do not exist any more, unless this is being done."""
        if not self._is_looking:
            self._is_looking = True
            self._works.append(self._missing_forgotten(exists))

    def clean_up(self, now: Now) -> None:
        """Remove expired offsets, and groups that are empty then."""
        if not self._is_cleaning:
            self._is_cleaning = True
            self._works.append(self._cleaned(now))

    # -- in pieces

    def _begin(self, work: Iterator[None]) -> None:
        """Do one piece; the others follow in turn with those of other works."""
        if any(True for _ in islice(work, 1)):
            self._works.append(work)

    def _group_forgotten(self, group: ClassicGroup, then: Forgotten) -> Iterator[None]:
        group_id, generation = group.group_id, group.generation
        failed = GroupError.NONE

        def is_as_it_was() -> bool:
            return group.generation == generation and group.state is GroupState.EMPTY

        def stored(error: GroupError) -> None:
            nonlocal failed
            failed = failed if error is GroupError.NONE else error

        def ended(error: GroupError) -> None:
            if error is GroupError.NONE and is_as_it_was():
                self._drop(group)
            elif error is GroupError.NONE:
                error = GroupError.NON_EMPTY_GROUP
            then(failed if error is GroupError.NONE else error)

        batches = _batches(group_id, self._table.offsets.all_partitions(group_id))
        batch = next(batches, ())
        for following in batches:
            self._forget(group_id, batch, stored)
            yield
            if not is_as_it_was():
                # A tombstone would remove the record of a generation that began meanwhile.
                then(GroupError.NON_EMPTY_GROUP)
                return
            batch = following
        self._forget(group_id, batch, ended, (tombstone_of(group_id),))

    def _topics_forgotten(self, topics: Mapping[str, UUID]) -> Iterator[None]:
        def is_gone(topic: str, topic_id: UUID | None) -> bool:
            # A commit knows its topic, unless an older release has written it.
            return topic in topics and topic_id in (None, topics[topic])

        yield from self._forgotten_where(is_gone)

    def _missing_forgotten(self, exists: Exists) -> Iterator[None]:
        yield from self._forgotten_where(lambda topic, topic_id: not exists(topic, topic_id))
        self._is_looking = False

    def _forgotten_where(self, is_gone: Callable[[str, UUID | None], bool]) -> Iterator[None]:
        """Remove the offsets of topics for whose name and id `is_gone` returns True."""
        offsets = self._table.offsets
        for group_id in offsets.groups():
            for some in _examined(offsets.of(group_id)):
                known = offsets.of(group_id)
                gone = tuple(
                    each
                    for each in some
                    if each in known and is_gone(each.topic, known[each].topic_id)
                )
                if gone:
                    self._forget(group_id, gone)
                yield

    def _cleaned(self, now: Now) -> Iterator[None]:
        for group_id in tuple(self._table.groups):
            group = self._table.groups.get(group_id)
            if group is not None:
                yield from self._group_cleaned(group, now)
            yield
        self._is_cleaning = False

    def _group_cleaned(self, group: ClassicGroup, now: Now) -> Iterator[None]:
        expiry, group_id, offsets = self._expiry(group), group.group_id, self._table.offsets
        if expiry is None:
            return
        known = offsets.of(group_id)
        if not known:
            if not self._may_go(group):
                return
            if group.is_new:
                self._drop(group)
            else:
                self.forget_group(group)
            return
        before = group.state, group.since_ms
        for some in _examined(known):
            over = offsets.expired(
                group_id, some, expiry.idle_since_ms, self._settings.offsets_retention_ms,
                expiry.subscribed, now.time_ms,
            )  # fmt: skip
            if len(over) == len(known) and self._may_go(group):
                self.forget_group(group)
                return
            if over:
                self._forget(group_id, over)
            yield
            if (group.state, group.since_ms) != before:
                return

    def _may_go(self, group: ClassicGroup) -> bool:
        """Whether the group may be removed, but for its offsets. `pending`: a member is about to join."""
        is_empty = group.state is GroupState.EMPTY and not group.pending
        return is_empty and not self._table.offsets.is_changing(group.group_id)

    def _forget(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        then: Forgotten = lambda error: None,
        last: tuple[GroupRecord, ...] = (),
    ) -> None:
        """Remove offsets with one batch, which ends with the records `last`. Nothing is removed if it can't be stored."""
        gone = dict.fromkeys(partitions)

        def stored(error: GroupError, now: Now) -> None:
            if error is GroupError.NONE:
                self._table.offsets.forget(group_id, gone)
            then(error)

        self._effects.append(GroupRecords(group_id, gone, last), stored)

    def drop_if_unused(self, group: ClassicGroup) -> None:
        """Drop a group to which no member joined and of which nothing was stored."""
        is_used = group.members or group.pending or not group.is_new
        offsets = self._table.offsets
        has_offsets = offsets.of(group.group_id) or offsets.being_stored(group.group_id)
        if not is_used and not has_offsets:
            self._drop(group)

    def _expiry(self, group: ClassicGroup) -> _Expiry | None:
        if group.state is GroupState.EMPTY:
            is_simple = group.protocol_type is None
            return _Expiry(None if is_simple else group.since_ms, frozenset())
        subscribed = subscribed_topics(group)
        if group.state is not GroupState.STABLE or subscribed is None:
            return None
        return _Expiry(None, subscribed)

    def _drop(self, group: ClassicGroup) -> None:
        group_id, offsets = group.group_id, self._table.offsets
        if self._table.groups.get(group_id) is group:
            del self._table.groups[group_id]
            if offsets.of(group_id) or offsets.is_changing(group_id):
                # Offsets that were committed meanwhile, without a member.
                self._table.groups[group_id] = ClassicGroup(group_id, group.since_ms)
        group.state = GroupState.DEAD


def _examined(offsets: Mapping[TopicPartition, Committed]) -> Iterator[list[TopicPartition]]:
    """The partitions, some at a time. Others may be added or removed meanwhile."""
    partitions = iter(tuple(offsets))
    while some := list(islice(partitions, _EXAMINED_AT_ONCE)):
        yield some


def _batches(
    group_id: str, partitions: Iterable[TopicPartition]
) -> Iterator[tuple[TopicPartition, ...]]:
    """Partitions whose tombstones fit into one batch."""
    own_bytes = _RECORD_BYTES + len(group_id.encode())
    batch: list[TopicPartition] = []
    size_bytes = 0
    for each in partitions:
        size_bytes += own_bytes + len(each.topic)
        if size_bytes > _BATCH_BYTES and batch:
            yield tuple(batch)
            batch, size_bytes = [], own_bytes + len(each.topic)
        batch.append(each)
    if batch:
        yield tuple(batch)
