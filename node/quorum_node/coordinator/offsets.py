"""Committed offsets of groups. PURE.

Owns the committed offsets of every group, and those in open transactions. Must not know members, nor the storage.
Source: KIP-98 and KIP-447 (offsets in transactions), KIP-211 (expiry); the rules of a stock coordinator.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from quorum_node.coordinator.requests import Committed, TopicPartition
from quorum_node.records.group_records import (
    NO_TIME,
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

    __slots__ = ("_committed", "_number", "_pending", "_storing")

    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartition, Committed]] = {}
        self._pending: dict[int, dict[str, dict[TopicPartition, _Pending]]] = {}
        self._number = 0
        self._storing: dict[str, Counter[TopicPartition]] = {}

    # -- queries

    def of(self, group_id: str) -> Mapping[TopicPartition, Committed]:
        """Committed offsets of a group."""
        return self._committed.get(group_id, _NONE)

    def groups(self) -> tuple[str, ...]:
        """Groups with offsets."""
        return tuple(self._committed)

    def unstable(self, group_id: str) -> frozenset[TopicPartition]:
        """Partitions with offset commits in an open transaction."""
        return frozenset(
            partition for groups in self._pending.values() for partition in groups.get(group_id, ())
        )

    def being_stored(self, group_id: str) -> frozenset[TopicPartition]:
        """Partitions with commits that are on their way to the log. A tombstone that follows would remove them."""
        return frozenset(self._storing.get(group_id, ()))

    def expired(
        self,
        group_id: str,
        idle_since_ms: int | None,
        retention_ms: int,
        subscribed: Iterable[str],
        time_ms: int,
    ) -> tuple[TopicPartition, ...]:
        """Expired offsets. `idle_since_ms`: time since which the group has no members; None: the time of each commit counts."""
        kept = frozenset(subscribed)
        unstable = self.unstable(group_id) | self.being_stored(group_id)

        def is_over(each: Committed) -> bool:
            if each.expire_time_ms != NO_TIME:
                return time_ms >= each.expire_time_ms
            since_ms = each.commit_time_ms if idle_since_ms is None else idle_since_ms
            return time_ms - since_ms >= retention_ms

        return tuple(
            partition
            for partition, each in self.of(group_id).items()
            if partition.topic not in kept and partition not in unstable and is_over(each)
        )

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
        groups = self._pending.setdefault(producer_id, {})
        groups.setdefault(group_id, {}).update(
            {partition: _Pending(self._number, each) for partition, each in offsets.items()}
        )

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """A marker of the producer is in the log."""
        for group_id, pending in self._pending.pop(producer_id, {}).items():
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
        for groups in self._pending.values():
            waiting = groups.get(group_id, {})
            for partition in offsets.keys() & waiting.keys():
                if waiting[partition].number < numbers[partition]:
                    waiting[partition] = _Pending(waiting[partition].number, None)

    def forget(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Remove offsets, also those in open transactions."""
        known = self._committed.get(group_id)
        waiting = [groups[group_id] for groups in self._pending.values() if group_id in groups]
        for partition in tuple(partitions):
            if known is not None:
                known.pop(partition, None)
            for pending in waiting:
                pending.pop(partition, None)
        if known is not None and not known:
            del self._committed[group_id]


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
