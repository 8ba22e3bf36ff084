"""State of a coordinator for one partition of `__consumer_offsets`, and its replay from the log. PURE.

Owns the tables and the effect of each record. Must not know requests.
"""

from collections.abc import Iterator

from quorum_node.coordinator.effects import Now
from quorum_node.coordinator.group import ClassicGroup, GroupState
from quorum_node.coordinator.offsets import GroupOffsets, committed_of
from quorum_node.coordinator.requests import (
    DescribedGroup,
    DescribedMember,
    TopicPartition,
)
from quorum_node.coordinator.stored_groups import group_of
from quorum_node.records.group_records import (
    GroupLogRecord,
    GroupRecord,
    OffsetRecord,
    OtherGroupRecord,
)

NO_PRODUCER = -1
GROUP_EPOCH_TYPES = frozenset({3, 11, 17})
"""Record types that define other kinds of groups: consumer, share and streams groups."""


class GroupTable:
    """`others`: names of other kinds of groups, which this coordinator does not change."""

    __slots__ = ("groups", "offsets", "others")

    def __init__(self) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = GroupOffsets()
        self.others: set[str] = set()

    # -- from the log

    def replay(self, record: GroupLogRecord, now: Now, producer_id: int = NO_PRODUCER) -> None:
        """Apply the next record of the log. `producer_id`: of its transaction."""
        match record:
            case OffsetRecord():
                self._replay_offset(record, producer_id)
            case GroupRecord(value=None):
                self.groups.pop(record.key.group, None)
            case GroupRecord():
                assert record.value is not None
                group_id = record.key.group
                self.groups[group_id] = group_of(group_id, record.value, now.ms, now.time_ms)
                self.others.discard(group_id)
            case OtherGroupRecord() if record.key_type in GROUP_EPOCH_TYPES:
                if record.is_tombstone:
                    self.others.discard(record.group)
                else:
                    self.others.add(record.group)
                    self.groups.pop(record.group, None)

    def _replay_offset(self, record: OffsetRecord, producer_id: int) -> None:
        key, value = record.key, record.value
        partition = TopicPartition(key.topic, key.partition)
        if value is None:
            self.offsets.forget(key.group, (partition,))
        elif producer_id == NO_PRODUCER:
            self.offsets.commit(key.group, {partition: committed_of(value)})
        else:
            self.offsets.commit_with(producer_id, key.group, {partition: committed_of(value)})

    def loaded(self, now: Now) -> Iterator[ClassicGroup]:
        """The log was read completely: one group after the other is made ready. Records of the log may be replayed meanwhile no more.

        Groups that only commit offsets have no record of the group itself.
        """
        for group_id in self.offsets.groups():
            if group_id not in self.others and group_id not in self.groups:
                group = self.groups[group_id] = ClassicGroup(group_id, now.time_ms)
                yield group
        for group in tuple(self.groups.values()):
            for member in group.members.values():
                member.lives(now.ms)
            yield group

    # -- for administrators

    def describe(self, group_id: str) -> DescribedGroup | None:
        """Describe a group; None if it does not exist, or is of another kind."""
        group = self.groups.get(group_id)
        if group is None:
            return None
        is_stable = group.state is GroupState.STABLE
        members = tuple(
            DescribedMember(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                each.metadata(group.protocol) if is_stable else b"",
                each.assignment,
            )
            for each in group.members.values()
        )
        return DescribedGroup(
            group_id,
            group.state.value,
            group.protocol_type or "",
            (group.protocol or "") if is_stable else "",
            members,
        )
