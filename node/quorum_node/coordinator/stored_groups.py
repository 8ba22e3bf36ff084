"""Conversion of a group to and from its record. PURE.

Owns what is stored of a group: a generation with its members and their assignments. A rebalance in progress is not
stored: members join again.
"""

from collections.abc import Mapping

from quorum_node.coordinator.group import ClassicGroup, GroupState
from quorum_node.coordinator.members import Member, Protocol
from quorum_node.records.group_records import (
    NO_TIME,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    MemberMetadata,
)


def record_of(group: ClassicGroup, assignments: Mapping[str, bytes]) -> GroupRecord:
    """The record of a group. `assignments`: by member id, for every member."""
    members = tuple(
        MemberMetadata(
            member_id=each.member_id,
            group_instance_id=each.instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            rebalance_timeout_ms=each.rebalance_timeout_ms,
            session_timeout_ms=each.session_timeout_ms,
            subscription=each.metadata(group.protocol),
            assignment=assignments[each.member_id],
        )
        for each in group.members.values()
    )
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader_id,
        current_state_timestamp_ms=group.since_ms,
        members=members,
    )
    return GroupRecord(GroupMetadataKey(group=group.group_id), value)


def tombstone_of(group_id: str) -> GroupRecord:
    """The tombstone of a group."""
    return GroupRecord(GroupMetadataKey(group=group_id), None)


def group_of(group_id: str, value: GroupMetadataValue, now_ms: float, time_ms: int) -> ClassicGroup:
    """A group from its record: stable with members whose sessions start now, or empty."""
    stored_ms = value.current_state_timestamp_ms
    group = ClassicGroup(group_id, time_ms if stored_ms == NO_TIME else stored_ms)
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol = value.protocol
    for each in value.members:
        rebalance_ms = each.rebalance_timeout_ms
        member = Member(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            (Protocol(value.protocol or "", bytes(each.subscription)),),
            each.session_timeout_ms,
            each.session_timeout_ms if rebalance_ms < 0 else rebalance_ms,
        )
        member.assignment = bytes(each.assignment)
        member.lives(now_ms)
        group.add(member, value.protocol_type)
    group.leader_id = value.leader if value.leader in group.members else group.leader_id
    if group.members:
        group.state = GroupState.STABLE
    return group
