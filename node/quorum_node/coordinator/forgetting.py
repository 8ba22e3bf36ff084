"""Removal of offsets and groups: expired offsets, deletions by an administrator, deleted topics. PURE.

Owns the tombstones. Nothing is removed before its tombstone is stored: a consumer without a committed offset would
start at another position.
Source: KIP-211, KIP-229, KIP-496; the rules of a stock coordinator.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from quorum_node.coordinator.effects import Effects, Now
from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.group import ClassicGroup, GroupState
from quorum_node.coordinator.group_table import GroupTable
from quorum_node.coordinator.offsets import offset_record_of
from quorum_node.coordinator.requests import TopicPartition
from quorum_node.coordinator.settings import GroupSettings
from quorum_node.coordinator.stored_groups import tombstone_of
from quorum_node.coordinator.subscriptions import subscribed_topics

_AT_ONCE = 500
"""Maximum number of tombstones in one batch, which has to be smaller than max.message.bytes."""

Forgotten = Callable[[GroupError], None]


class _Expiry(NamedTuple):
    idle_since_ms: int | None
    subscribed: frozenset[str]


class Forgetting:
    """Removals in all groups of one coordinator."""

    def __init__(self, table: GroupTable, settings: GroupSettings, effects: Effects) -> None:
        self._table = table
        self._settings = settings
        self._effects = effects

    def forget_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        then: Forgotten = lambda error: None,
    ) -> None:
        """Remove offsets. `then` is called once, when all are removed or one removal failed."""
        each = tuple(partitions)
        chunks = [each[at : at + _AT_ONCE] for at in range(0, len(each), _AT_ONCE)]
        if not chunks:
            then(GroupError.NONE)
            return
        missing, worst = len(chunks), GroupError.NONE

        def stored(chunk: tuple[TopicPartition, ...], error: GroupError) -> None:
            nonlocal missing, worst
            if error is GroupError.NONE:
                self._table.offsets.forget(group_id, chunk)
            else:
                worst = error
            missing -= 1
            if not missing:
                then(worst)

        for chunk in chunks:
            records = tuple(offset_record_of(group_id, each, None) for each in chunk)
            self._effects.append(records, lambda error, now, chunk=chunk: stored(chunk, error))  # type: ignore[misc]

    def forget_group(self, group: ClassicGroup, then: Forgotten = lambda error: None) -> None:
        """Remove a group without members, with its offsets."""
        generation, offsets = group.generation, self._table.offsets

        def is_as_it_was() -> bool:
            return group.generation == generation and group.state is GroupState.EMPTY

        def stored(error: GroupError, now: Now) -> None:
            if error is GroupError.NONE and is_as_it_was():
                self._drop(group)
            then(error)

        def offsets_are_deleted(error: GroupError) -> None:
            if error is GroupError.NONE and not is_as_it_was():
                # A tombstone would remove the record of a generation that began meanwhile.
                error = GroupError.NON_EMPTY_GROUP
            if error is GroupError.NONE:
                self._effects.append((tombstone_of(group.group_id),), stored)
            else:
                then(error)

        partitions = offsets.unstable(group.group_id) | offsets.being_stored(group.group_id)
        partitions |= offsets.of(group.group_id).keys()
        self.forget_offsets(group.group_id, sorted(partitions), offsets_are_deleted)

    def topics_deleted(self, names: Iterable[str]) -> None:
        """Remove the offsets of deleted topics."""
        gone = frozenset(names)
        for group_id in self._table.offsets.groups():
            known = self._table.offsets.of(group_id)
            self.forget_offsets(group_id, tuple(each for each in known if each.topic in gone))

    def clean_up(self, now: Now) -> None:
        """Remove expired offsets, and groups that are empty then."""
        for group in list(self._table.groups.values()):
            expiry = self._expiry(group)
            if expiry is None:
                continue
            known = self._table.offsets.of(group.group_id)
            over = self._table.offsets.expired(
                group.group_id,
                expiry.idle_since_ms,
                self._settings.offsets_retention_ms,
                expiry.subscribed,
                now.time_ms,
            )
            is_changing = self._table.offsets.unstable(group.group_id)
            is_changing |= self._table.offsets.being_stored(group.group_id)
            if len(over) < len(known) or group.state is not GroupState.EMPTY or is_changing:
                self.forget_offsets(group.group_id, over)
            elif group.pending:
                """A member is about to join."""
            elif known or not group.is_new:
                self.forget_group(group)
            else:
                self._drop(group)

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
        if self._table.groups.get(group.group_id) is group:
            del self._table.groups[group.group_id]
        group.state = GroupState.DEAD
