"""Rebalance: the transition of a group to its next generation. PURE.

Owns the states of a group and its timers: all members join again, a protocol is chosen, the leader sends assignments.
Must not know requests.
Source: KIP-62 (rebalance timeout), KIP-134 (delay of the first rebalance), KIP-345; the rules of a stock coordinator.
"""

from math import inf

from quorum_node.coordinator.effects import Effects, Now
from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.group import ClassicGroup, GroupState
from quorum_node.coordinator.members import Member
from quorum_node.coordinator.requests import Joined, Synced
from quorum_node.coordinator.settings import GroupSettings
from quorum_node.coordinator.stored_groups import record_of

_MOST_GENERATIONS = (1 << 31) - 1
NEW_MEMBER_JOIN_MS = 300_000
"""Maximum wait of a new member that does not repeat its request: its client may have ended."""
_CAN_REBALANCE = (GroupState.EMPTY, GroupState.STABLE, GroupState.COMPLETING_REBALANCE)


class Rebalance:
    """Rebalances of all groups of one coordinator."""

    def __init__(self, settings: GroupSettings, effects: Effects) -> None:
        self._settings = settings
        self._effects = effects

    # -- start

    def begin_or_continue(self, group: ClassicGroup, now: Now) -> None:
        """Members, or their protocols, changed: start a rebalance, or continue the present one."""
        if group.state in _CAN_REBALANCE:
            self.begin(group, now)
        elif group.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_all_joined(group, now)

    def begin(self, group: ClassicGroup, now: Now) -> None:
        """All members have to join again."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.refuse_assignments(group, GroupError.REBALANCE_IN_PROGRESS, now)
        is_first = group.state is GroupState.EMPTY
        group.unsynced.clear()
        group.sync_due_ms = inf
        group.turn(GroupState.PREPARING_REBALANCE, now.time_ms)
        if is_first:
            delay_ms = self._settings.initial_rebalance_delay_ms
            group.join_due_ms = now.ms + delay_ms
            group.rest_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            group.newly_joined = False
            if delay_ms:
                return
        else:
            group.rest_ms = None
            group.join_due_ms = now.ms + group.rebalance_timeout_ms
        self._complete_if_all_joined(group, now)

    # -- timers

    def passed(self, group: ClassicGroup, now: Now) -> None:
        """Handle expired timers: sessions, assigned ids, the rebalance itself."""
        late = [each for each, due in group.pending.items() if due <= now.ms]
        for member_id in late:
            del group.pending[member_id]
        if late:
            self.continue_without_ids(group, now)
        for member in list(group.members.values()):
            # Removing a member may complete a rebalance, which removes others or restarts their sessions.
            if member.due_ms <= now.ms and member.member_id in group.members:
                self.remove(group, member, now)
        if group.join_due_ms <= now.ms:
            self._join_is_over(group, now)
        if group.sync_due_ms <= now.ms:
            self._sync_is_over(group, now)

    def _join_is_over(self, group: ClassicGroup, now: Now) -> None:
        """End of the join phase. In the first rebalance it is extended as long as members join."""
        if group.rest_ms and group.newly_joined:
            delay_ms = min(self._settings.initial_rebalance_delay_ms, group.rest_ms)
            group.newly_joined = False
            group.rest_ms -= delay_ms
            group.join_due_ms = now.ms + delay_ms
            return
        self._complete(group, now)

    def _sync_is_over(self, group: ClassicGroup, now: Now) -> None:
        """Members that did not request their assignment in time are removed."""
        group.sync_due_ms = inf
        late = sorted(group.unsynced)
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not late:
            return
        for member_id in late:
            member = group.members.get(member_id)
            if member is not None:
                group.remove(member_id)
        self.begin(group, now)

    # -- removal of members

    def remove(self, group: ClassicGroup, member: Member, now: Now) -> None:
        """A member's session expired."""
        self.drop(group, member)
        self.begin_or_continue_without(group, now)

    def drop(self, group: ClassicGroup, member: Member) -> None:
        """Remove a member. `begin_or_continue_without` has to follow."""
        group.remove(member.member_id)
        if member.joining is not None:
            self._effects.reply(
                member.joining, Joined(GroupError.UNKNOWN_MEMBER_ID, member.member_id)
            )
        if member.syncing is not None:
            self._effects.reply(member.syncing, Synced(GroupError.UNKNOWN_MEMBER_ID))

    def continue_without_ids(self, group: ClassicGroup, now: Now) -> None:
        """Clients of assigned ids do not join: only a rebalance in progress waits for them."""
        if group.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_all_joined(group, now)

    def begin_or_continue_without(self, group: ClassicGroup, now: Now) -> None:
        """An expected member is missing, or its partitions have to be reassigned."""
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.begin(group, now)
        elif group.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_all_joined(group, now)

    # -- end of the join phase

    def _complete_if_all_joined(self, group: ClassicGroup, now: Now) -> None:
        is_waiting_for_more = group.rest_ms is not None and now.ms < group.join_due_ms
        if group.all_have_joined and not is_waiting_for_more:
            self._complete(group, now)

    def _complete(self, group: ClassicGroup, now: Now) -> None:
        """Start the next generation with the members that have joined."""
        for member in list(group.members.values()):
            if member.joining is None and member.instance_id is None:
                group.remove(member.member_id)
        if group.members and not group.elect_joined_leader():
            # All are static and none has joined: they keep their places until their sessions expire.
            group.join_due_ms = now.ms + group.rebalance_timeout_ms
            return
        group.join_due_ms, group.rest_ms = inf, None
        # After the largest generation that fits into a record, which only other software can reach, restart at 1.
        group.generation = max(group.generation, 0) % _MOST_GENERATIONS + 1
        if not group.members:
            self._become_empty(group, now)
            return
        group.protocol = group.choose_protocol()
        group.turn(GroupState.COMPLETING_REBALANCE, now.time_ms)
        for member in group.members.values():
            member.is_new = False
            group.unsynced.add(member.member_id)
            member.lives(now.ms)
            if member.joining is not None:
                request_id, member.joining = member.joining, None
                self._effects.reply(request_id, self.joined(group, member))
        group.sync_due_ms = now.ms + group.rebalance_timeout_ms

    def joined(self, group: ClassicGroup, member: Member) -> Joined:
        """The join response for a member of the present generation."""
        is_leader = member.member_id == group.leader_id
        return Joined(
            GroupError.NONE,
            member.member_id,
            group.generation,
            group.protocol_type,
            group.protocol,
            group.leader_id or "",
            group.as_seen_by_leader() if is_leader else (),
        )

    def _become_empty(self, group: ClassicGroup, now: Now) -> None:
        group.protocol = group.leader_id = None
        group.unsynced.clear()
        group.turn(GroupState.EMPTY, now.time_ms)
        # Without this record another coordinator would keep the members until their sessions expire.
        self._effects.append((record_of(group, {}),), lambda error, later: None)

    # -- assignments

    def assign(self, group: ClassicGroup, assignments: dict[str, bytes], now: Now) -> None:
        """The assignments are stored: the generation is complete."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self._answer_syncs(group, GroupError.NONE, now)
        group.turn(GroupState.STABLE, now.time_ms)

    def refuse_assignments(self, group: ClassicGroup, error: GroupError, now: Now) -> None:
        """Members that wait for an assignment get an error in this generation."""
        for member in group.members.values():
            member.assignment = b""
        self._answer_syncs(group, error, now)

    def _answer_syncs(self, group: ClassicGroup, error: GroupError, now: Now) -> None:
        for member in group.members.values():
            if member.syncing is None:
                continue
            request_id, member.syncing = member.syncing, None
            member.lives(now.ms)
            self._effects.reply(request_id, synced(group, member, error))


def synced(group: ClassicGroup, member: Member, error: GroupError) -> Synced:
    """The assignment of a member of the present generation."""
    if error is not GroupError.NONE:
        return Synced(error)
    return Synced(error, group.protocol_type, group.protocol, member.assignment)
