"""Validation of members, and SyncGroup, Heartbeat and LeaveGroup. PURE.

Owns the checks of member, instance and generation. Must not know offsets.
Source: KIP-62, KIP-345, KIP-559 (the protocol in SyncGroup); the rules of a stock coordinator.
"""

from math import inf

from quorum_node.coordinator.effects import Effects, Now
from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.group import ClassicGroup, GroupState
from quorum_node.coordinator.members import Member
from quorum_node.coordinator.rebalance import Rebalance, synced
from quorum_node.coordinator.requests import Done, Heartbeat, Leave, Left, Sync, Synced
from quorum_node.coordinator.stored_groups import record_of


def member_of(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
) -> Member | GroupError:
    """The member of this generation, or the error."""
    if instance_id is not None:
        known_id = group.static.get(instance_id)
        if known_id is None:
            return GroupError.UNKNOWN_MEMBER_ID
        if known_id != member_id:
            return GroupError.FENCED_INSTANCE_ID
    member = group.members.get(member_id)
    if member is None:
        return GroupError.UNKNOWN_MEMBER_ID
    if generation != group.generation:
        return GroupError.ILLEGAL_GENERATION
    return member


class Membership:
    """SyncGroup, Heartbeat and LeaveGroup for all groups of one coordinator."""

    def __init__(self, effects: Effects, rebalance: Rebalance) -> None:
        self._effects = effects
        self._rebalance = rebalance

    # -- SyncGroup

    def sync(self, sync: Sync, group: ClassicGroup | None, now: Now) -> None:
        """Respond now, or once the leader's assignments are stored."""
        member = self._syncing(sync, group)
        if isinstance(member, GroupError):
            self._effects.reply(sync.request_id, Synced(member))
            return
        assert group is not None
        group.unsynced.discard(member.member_id)
        if group.state is GroupState.STABLE:
            member.lives(now.ms)
            self._effects.reply(sync.request_id, synced(group, member, GroupError.NONE))
            return
        if member.syncing is not None:
            self._effects.reply(member.syncing, Synced(GroupError.UNKNOWN_MEMBER_ID))
        member.syncing, member.due_ms = sync.request_id, inf
        if member.member_id == group.leader_id:
            self._store(sync, group)

    def _syncing(self, sync: Sync, group: ClassicGroup | None) -> Member | GroupError:
        member = _member_in(group, sync)
        if isinstance(member, GroupError):
            return member
        assert group is not None
        for given, known in (
            (sync.protocol_type, group.protocol_type),
            (sync.protocol, group.protocol),
        ):
            if given is not None and known is not None and given != known:
                return GroupError.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.PREPARING_REBALANCE:
            return GroupError.REBALANCE_IN_PROGRESS
        return member

    def _store(self, sync: Sync, group: ClassicGroup) -> None:
        """Store assignments before any member gets one, so that another coordinator can take over."""
        generation = group.generation
        assignments = {each: sync.assignments.get(each, b"") for each in group.members}

        def stored(error: GroupError, now: Now) -> None:
            if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
                return  # waiting members were answered when the group changed its state
            if error is GroupError.NONE:
                self._rebalance.assign(group, assignments, now)
            else:
                self._rebalance.refuse_assignments(group, error, now)
                self._rebalance.begin(group, now)

        self._effects.append((record_of(group, assignments),), stored)

    # -- Heartbeat

    def heartbeat(self, heartbeat: Heartbeat, group: ClassicGroup | None, now: Now) -> None:
        """Restart the member's session; the response states whether it has to join again."""
        error = self._heard(heartbeat, group, now)
        self._effects.reply(heartbeat.request_id, Done(error))

    def _heard(self, heartbeat: Heartbeat, group: ClassicGroup | None, now: Now) -> GroupError:
        member = _member_in(group, heartbeat)
        if isinstance(member, GroupError):
            return member
        assert group is not None
        if member.joining is None and member.syncing is None:
            member.lives(now.ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            return GroupError.REBALANCE_IN_PROGRESS
        return GroupError.NONE

    # -- LeaveGroup

    def leave(self, leave: Leave, group: ClassicGroup | None, now: Now) -> None:
        """Remove members at once; the others take over their partitions, in one rebalance."""
        if not leave.group_id:
            self._effects.reply(leave.request_id, Left(GroupError.INVALID_GROUP_ID))
            return
        errors: tuple[GroupError, ...] = (GroupError.UNKNOWN_MEMBER_ID,) * len(leave.members)
        if group is not None:
            count, expected = len(group.members), len(group.pending)
            errors = tuple(self._leave(*each, group) for each in leave.members)
            if len(group.members) < count:
                self._rebalance.begin_or_continue_without(group, now)
            elif len(group.pending) < expected:
                self._rebalance.continue_without_ids(group, now)
        self._effects.reply(leave.request_id, Left(GroupError.NONE, errors))

    def _leave(self, member_id: str, instance_id: str | None, group: ClassicGroup) -> GroupError:
        if instance_id is None and member_id in group.pending:
            del group.pending[member_id]
            return GroupError.NONE
        if instance_id is not None and not member_id:
            # An administrator removes the member by its instance id alone.
            member_id = group.static.get(instance_id, "")
        member = member_of(group, member_id, instance_id, group.generation)
        if isinstance(member, GroupError):
            return member
        self._rebalance.drop(group, member)
        return GroupError.NONE


def _member_in(group: ClassicGroup | None, asked: Sync | Heartbeat) -> Member | GroupError:
    if not asked.group_id:
        return GroupError.INVALID_GROUP_ID
    if group is None or group.state is GroupState.EMPTY:
        return GroupError.UNKNOWN_MEMBER_ID
    return member_of(group, asked.member_id, asked.instance_id, asked.generation)
