"""Committed offsets of groups. PURE.

Owns the committed offsets of every group, and those in open transactions. Must not know members, nor the storage.
Source: KIP-98 and KIP-447 (offsets in transactions), KIP-211 (expiry); the rules of a stock coordinator.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from quorum_node.coordinator.requests import Committed, TopicPartition
from quorum_node.records.group_records import (
    NO_TIME,
    GroupRecord,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetRecord,
)

_NONE: Mapping[TopicPartition, Committed] = {}


class _Pending(NamedTuple):
    """An offset in an open transaction. `number`: its place among all commits; `committed`: None if a newer commit counts."""

    number: int
    committed: Committed | None


class GroupOffsets:
    """Offsets of all groups of one coordinator.

    Of several commits for a partition the one that is the last in the log counts, not the one whose transaction ended last:
    compaction keeps no other.
    """

    __slots__ = ("_committed", "_groups_of", "_number", "_pending", "_storing")

    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartition, Committed]] = {}
        self._pending: dict[str, dict[int, dict[TopicPartition, _Pending]]] = {}
        """Group → producer of an open transaction → partition."""
        self._groups_of: dict[int, dict[str, None]] = {}
        """The groups in the open transaction of each producer."""
        self._number = 0
        self._storing: dict[str, Counter[TopicPartition]] = {}

    # -- queries

    def of(self, group_id: str) -> Mapping[TopicPartition, Committed]:
        """Committed offsets of a group."""
        return self._committed.get(group_id, _NONE)

    def groups(self) -> tuple[str, ...]:
        """Groups with offsets, also those with offsets only in open transactions."""
        return (*self._committed, *(each for each in self._pending if each not in self._committed))

    def unstable(self, group_id: str) -> frozenset[TopicPartition]:
        """Partitions with offset commits in an open transaction."""
        return frozenset().union(*self._pending.get(group_id, {}).values())

    def being_stored(self, group_id: str) -> frozenset[TopicPartition]:
        """Partitions with commits that are on their way to the log. A tombstone that follows would remove them."""
        return frozenset(self._storing.get(group_id, ()))

    def all_being_stored(self) -> tuple[tuple[str, tuple[TopicPartition, ...]], ...]:
        """Groups with their partitions of `being_stored`."""
        return tuple((group_id, tuple(each)) for group_id, each in self._storing.items())

    def is_changing(self, group_id: str) -> bool:
        """Whether offsets of the group are in an open transaction, or on their way to the log."""
        return group_id in self._storing or group_id in self._pending

    def all_partitions(self, group_id: str) -> list[TopicPartition]:
        """Partitions with offsets of any kind."""
        known = self.of(group_id)
        if not self.is_changing(group_id):
            return list(known)
        others = self.unstable(group_id) | self.being_stored(group_id)
        return [*known, *sorted(others - known.keys())]

    def expired(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        idle_since_ms: int | None,
        retention_ms: int,
        subscribed: frozenset[str],
        time_ms: int,
    ) -> tuple[TopicPartition, ...]:
        """Those of the partitions whose offsets are expired.

        `idle_since_ms`: time since which the group has no members; None: the time of each commit counts.
        """
        known, storing = self.of(group_id), self._storing.get(group_id, ())
        pending = tuple(self._pending.get(group_id, {}).values())

        def is_over(partition: TopicPartition) -> bool:
            each = known.get(partition)
            if each is None or partition.topic in subscribed or partition in storing:
                return False
            if any(partition in waiting for waiting in pending):
                return False
            if each.expire_time_ms != NO_TIME:
                return time_ms >= each.expire_time_ms
            since_ms = each.commit_time_ms if idle_since_ms is None else idle_since_ms
            return time_ms - since_ms >= retention_ms

        return tuple(filter(is_over, partitions))

    # -- changes

    def begin_storing(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Commits for these partitions are being written to the log."""
        self._storing.setdefault(group_id, Counter()).update(tuple(partitions))

    def end_storing(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """They were written, or the write failed."""
        storing = self._storing[group_id]
        for each in partitions:
            storing[each] -= 1
            if not storing[each]:
                del storing[each]
        if not storing:
            del self._storing[group_id]

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Set committed offsets."""
        self._number += 1
        self._set(group_id, offsets, dict.fromkeys(offsets, self._number))

    def commit_with(
        self, producer_id: int, group_id: str, offsets: Mapping[TopicPartition, Committed]
    ) -> None:
        """Set offsets that take effect when the producer's transaction is committed."""
        self._number += 1
        producers = self._pending.setdefault(group_id, {})
        producers.setdefault(producer_id, {}).update(
            {partition: _Pending(self._number, each) for partition, each in offsets.items()}
        )
        self._groups_of.setdefault(producer_id, {})[group_id] = None

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """A marker of the producer is in the log."""
        for group_id in self._groups_of.pop(producer_id, {}):
            pending = self._end(producer_id, group_id)
            taken = {at: each.committed for at, each in pending.items() if each.committed}
            if commit and taken:
                self._set(group_id, taken, {at: pending[at].number for at in taken})

    def _set(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, Committed],
        numbers: Mapping[TopicPartition, int],
    ) -> None:
        self._committed.setdefault(group_id, {}).update(offsets)
        for waiting in self._pending.get(group_id, {}).values():
            for partition in offsets.keys() & waiting.keys():
                if waiting[partition].number < numbers[partition]:
                    waiting[partition] = _Pending(waiting[partition].number, None)

    def forget(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Remove offsets, also those in open transactions."""
        known = self._committed.get(group_id)
        producers = self._pending.get(group_id, {})
        for partition in partitions:
            if known is not None:
                known.pop(partition, None)
            for pending in producers.values():
                pending.pop(partition, None)
        if known is not None and not known:
            del self._committed[group_id]
        for producer_id in [each for each, pending in producers.items() if not pending]:
            self._end(producer_id, group_id)
            del self._groups_of[producer_id][group_id]

    def _end(self, producer_id: int, group_id: str) -> dict[TopicPartition, _Pending]:
        """Remove what the open transaction of a producer has of a group."""
        producers = self._pending[group_id]
        if len(producers) == 1:
            del self._pending[group_id]
        return producers.pop(producer_id)


class GroupRecords(Collection[OffsetRecord | GroupRecord]):
    """The records of offsets of one group, each with a value, or None for a tombstone; then `last`.

    Each is made when it is read, which may be on another thread: the making of many would hold the loop.
    """

    __slots__ = ("_group_id", "_last", "_offsets")

    def __init__(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, Committed] | Mapping[TopicPartition, None],
        last: tuple[GroupRecord, ...] = (),
    ) -> None:
        self._group_id = group_id
        self._offsets = offsets
        self._last = last

    def __len__(self) -> int:
        return len(self._offsets) + len(self._last)

    def __iter__(self) -> Iterator[OffsetRecord | GroupRecord]:
        for partition, committed in self._offsets.items():
            yield offset_record_of(self._group_id, partition, committed)
        yield from self._last

    def __contains__(self, record: object) -> bool:
        return any(each == record for each in self)


def offset_record_of(
    group_id: str, partition: TopicPartition, committed: Committed | None
) -> OffsetRecord:
    """The record in the log; value None for a tombstone."""
    key = OffsetCommitKey(group=group_id, topic=partition.topic, partition=partition.partition)
    if committed is None:
        return OffsetRecord(key, None)
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp_ms=committed.commit_time_ms,
        expire_timestamp_ms=committed.expire_time_ms,
        topic_id=committed.topic_id,
    )
    return OffsetRecord(key, value)


def committed_of(value: OffsetCommitValue) -> Committed:
    """A committed offset from a record."""
    return Committed(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp_ms,
        value.expire_timestamp_ms,
        value.topic_id,
    )
