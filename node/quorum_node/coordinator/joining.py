"""JoinGroup: a member joins a group, rejoins for its next generation, or replaces a static member. PURE.

Owns the results of a join request. Must not know the further course of a rebalance.
Source: KIP-62, KIP-345 (static members), KIP-394 (member id required), KIP-814 (return of a static leader); the rules
of a stock coordinator.
"""

from dataclasses import replace
from math import inf

from quorum_node.coordinator.early_errors import early_error
from quorum_node.coordinator.effects import Effects, Now
from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.group import ClassicGroup, GroupState
from quorum_node.coordinator.members import Member, Protocol, metadata_bytes, names_bytes
from quorum_node.coordinator.rebalance import NEW_MEMBER_JOIN_MS, Rebalance
from quorum_node.coordinator.requests import Join, Joined, Synced
from quorum_node.coordinator.settings import GroupSettings
from quorum_node.coordinator.stored_groups import record_of


class Joining:
    """Join requests of all groups of one coordinator."""

    def __init__(self, settings: GroupSettings, effects: Effects, rebalance: Rebalance) -> None:
        self._settings = settings
        self._effects = effects
        self._rebalance = rebalance

    def refusal(self, join: Join, group: ClassicGroup | None) -> GroupError:
        """NONE, or why the request is refused in any state of the group. `group`: None if there is none."""
        error = early_error(join, self._settings)
        if error is not GroupError.NONE:
            return error
        if group is None:
            return GroupError.UNKNOWN_MEMBER_ID if join.member_id else GroupError.NONE
        if self._is_full(join, group):
            return GroupError.GROUP_MAX_SIZE_REACHED
        names = tuple(each.name for each in join.protocols)
        if not group.supports(join.protocol_type, names):
            return GroupError.INCONSISTENT_GROUP_PROTOCOL
        return GroupError.NONE

    def join(self, join: Join, group: ClassicGroup, now: Now) -> None:
        """Respond now, or when the group's next generation begins. `join` was not refused."""
        if not join.member_id:
            if join.instance_id is not None:
                self._enter_static(join, join.instance_id, group, now)
            elif join.needs_known_id:
                group.pending[join.new_id] = now.ms + join.session_timeout_ms
                self._refuse(join, GroupError.MEMBER_ID_REQUIRED, join.new_id)
            else:
                self._enter(join, join.new_id, group, now)
        elif join.instance_id is None and join.member_id in group.pending:
            self._enter(join, join.member_id, group, now)
        else:
            self._come_back(join, group, now)

    def _is_full(self, join: Join, group: ClassicGroup) -> bool:
        """A group that can't be stored in one record counts as full as well."""
        own = group.members.get(join.member_id)
        others = [each.protocols for each in group.members.values() if each is not own]
        for size_of in (metadata_bytes, names_bytes):
            size_bytes = sum(map(size_of, (*others, join.protocols)))
            if size_bytes > self._settings.max_members_bytes:
                return True
        if own is not None or (join.instance_id or "") in group.static:
            return False
        pending = len(group.pending) - (join.member_id in group.pending)
        return len(group.members) + pending >= self._settings.max_size

    def _enter(self, join: Join, member_id: str, group: ClassicGroup, now: Now) -> None:
        member = Member(
            member_id,
            join.instance_id,
            join.client_id,
            join.client_host,
            join.protocols,
            join.session_timeout_ms,
            join.rebalance_timeout_ms,
        )
        member.is_new = True
        if group.rest_ms is not None:
            group.newly_joined = True
        group.add(member, join.protocol_type)
        self._wait(join, member, now)
        self._rebalance.begin_or_continue(group, now)

    def _enter_static(self, join: Join, instance_id: str, group: ClassicGroup, now: Now) -> None:
        known_id = group.static.get(instance_id)
        if known_id is None:
            self._enter(join, join.new_id, group, now)
        else:
            self._take_over(join, known_id, group, now)

    def _come_back(self, join: Join, group: ClassicGroup, now: Now) -> None:
        if join.instance_id is not None:
            known_id = group.static.get(join.instance_id)
            if known_id is not None and known_id != join.member_id:
                self._refuse(join, GroupError.FENCED_INSTANCE_ID)
                return
        member = group.members.get(join.member_id)
        if member is None or member.instance_id != join.instance_id:
            self._refuse(join, GroupError.UNKNOWN_MEMBER_ID)
            return
        is_same = member.protocols == join.protocols
        if group.state is GroupState.COMPLETING_REBALANCE and is_same:
            # The member sent the request before it got the response: the generation stays.
            self._effects.reply(join.request_id, self._rebalance.joined(group, member))
        elif group.state is GroupState.STABLE and is_same and member.member_id != group.leader_id:
            self._effects.reply(join.request_id, self._rebalance.joined(group, member))
        else:
            self._update(join, member)
            self._wait(join, member, now)
            self._rebalance.begin_or_continue(group, now)

    def _take_over(self, join: Join, old_id: str, group: ClassicGroup, now: Now) -> None:
        """A static member was restarted: the member with its instance id is replaced."""
        former_leader = group.leader_id
        member = group.rename(old_id, join.new_id)
        if member.joining is not None:
            self._effects.reply(member.joining, Joined(GroupError.FENCED_INSTANCE_ID, old_id))
            member.joining = None
        if member.syncing is not None:
            self._effects.reply(member.syncing, Synced(GroupError.FENCED_INSTANCE_ID))
            member.syncing = None
        before = member.protocols, member.session_timeout_ms, member.rebalance_timeout_ms
        self._update(join, member)
        if group.state is not GroupState.STABLE or group.choose_protocol() != group.protocol:
            self._wait(join, member, now)
            self._rebalance.begin_or_continue(group, now)
            return
        member.lives(now.ms)
        self._keep_generation(join, member, group, (old_id, former_leader or "", before))

    def _keep_generation(
        self,
        join: Join,
        member: Member,
        group: ClassicGroup,
        before: tuple[str, str, tuple[tuple[Protocol, ...], int, int]],
    ) -> None:
        """The group continues without a rebalance, with the new id, once that is stored."""
        old_id, former_leader, old_values = before
        new_id, generation = member.member_id, group.generation
        answer = self._rebalance.joined(group, member)
        if join.may_skip:
            answer = replace(answer, skip_assignment=new_id == group.leader_id)
        else:
            # It must not act as leader: it would send assignments that are not needed.
            answer = replace(answer, leader_id=former_leader, members=())

        def stored(error: GroupError, later: Now) -> None:
            if error is GroupError.NONE:
                self._effects.reply(join.request_id, answer)
                return
            if group.generation == generation and group.members.get(new_id) is member:
                group.rename(new_id, old_id)
                (
                    member.protocols,
                    member.session_timeout_ms,
                    member.rebalance_timeout_ms,
                ) = old_values
            self._refuse(join, error)

        assignments = {each.member_id: each.assignment for each in group.members.values()}
        self._effects.append((record_of(group, assignments),), stored)

    def _update(self, join: Join, member: Member) -> None:
        member.protocols = join.protocols
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.client_id, member.client_host = join.client_id, join.client_host

    def _wait(self, join: Join, member: Member, now: Now) -> None:
        """Wait for the next generation.

        An earlier waiting request of the same member is answered, as its client has given it up.
        """
        if member.joining is not None:
            self._effects.reply(
                member.joining, Joined(GroupError.UNKNOWN_MEMBER_ID, member.member_id)
            )
        member.joining = join.request_id
        member.due_ms = now.ms + NEW_MEMBER_JOIN_MS if member.is_new else inf

    def _refuse(self, join: Join, error: GroupError, member_id: str | None = None) -> None:
        given = join.member_id if member_id is None else member_id
        self._effects.reply(join.request_id, Joined(error, given))
