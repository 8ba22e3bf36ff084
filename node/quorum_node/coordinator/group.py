"""The state of one classic group: its members, its generation, and which protocol they agree on. PURE.

Owns the members and every change of them that keeps them consistent with leader, instances and waiting requests. Must not
know when a rebalance begins or ends (`rebalance.py`), nor what members ask (`membership.py`).
Source: KIP-62, KIP-345 (static members), KIP-394 (ids before members); the rules of a stock coordinator.
"""

from collections import Counter
from enum import Enum
from math import inf

from quorum_node.coordinator.members import Member
from quorum_node.coordinator.requests import JoinedMember


class GroupState(Enum):
    """The values are Kafka's words."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroup:
    """`since_ms`: of the state, in milliseconds since 1970. The `…due_ms` are on the monotonic clock, inf for never.

    `pending`: ids that were given out and did not come back yet, with when they are given up. `unsynced`: members that have
    not asked for their assignment in this generation. `rest_ms`: what is left of the rebalance timeout in the first
    rebalance, which waits for more members; None in all others.
    """

    __slots__ = (
        "generation",
        "group_id",
        "join_due_ms",
        "leader_id",
        "members",
        "newly_joined",
        "pending",
        "protocol",
        "protocol_type",
        "rest_ms",
        "since_ms",
        "state",
        "static",
        "sync_due_ms",
        "unsynced",
    )

    def __init__(self, group_id: str, time_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.since_ms = time_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}
        self.pending: dict[str, float] = {}
        self.unsynced: set[str] = set()
        self.join_due_ms = inf
        self.sync_due_ms = inf
        self.rest_ms: float | None = None
        self.newly_joined = False

    # -- what follows from the members

    @property
    def is_new(self) -> bool:
        """Nothing was ever stored of it."""
        return not self.generation and self.protocol_type is None

    @property
    def rebalance_timeout_ms(self) -> int:
        """That of the most patient member."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    @property
    def size_bytes(self) -> int:
        """Of the subscriptions of all members."""
        return sum(each.size_bytes for each in self.members.values())

    @property
    def all_have_joined(self) -> bool:
        """Nobody else is expected in this rebalance."""
        return not self.pending and all(each.joining is not None for each in self.members.values())

    @property
    def due_ms(self) -> float:
        """When time alone will change it next."""
        sessions = min((each.due_ms for each in self.members.values()), default=inf)
        pending = min(self.pending.values(), default=inf)
        return min(sessions, pending, self.join_due_ms, self.sync_due_ms)

    def supports(self, protocol_type: str, names: tuple[str, ...]) -> bool:
        """Whether a member with these protocols could be in the group."""
        if not protocol_type or not names:
            return False
        if not self.members:
            return True
        return protocol_type == self.protocol_type and bool(self._common() & set(names))

    def choose_protocol(self) -> str:
        """What all members support; most of them like it best. There is one: nobody is let in otherwise."""
        common = self._common()
        votes = Counter(
            next(name for name in each.protocol_names if name in common)
            for each in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def _common(self) -> set[str]:
        names = [set(each.protocol_names) for each in self.members.values()]
        return set.intersection(*names)

    def as_seen_by_leader(self) -> tuple[JoinedMember, ...]:
        """Members with their subscriptions for the chosen protocol."""
        return tuple(
            JoinedMember(each.member_id, each.instance_id, each.metadata(self.protocol))
            for each in self.members.values()
        )

    # -- changes

    def turn(self, state: GroupState, time_ms: int) -> None:
        """Into another state."""
        self.state = state
        self.since_ms = time_ms

    def add(self, member: Member, protocol_type: str) -> None:
        """A member enters; the first one leads."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self.pending.pop(member.member_id, None)
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> Member:
        """A member is gone; if it led, another one does."""
        member = self.members.pop(member_id)
        if member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        self.unsynced.discard(member_id)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def rename(self, old_id: str, new_id: str) -> Member:
        """A static member comes back under a new id: it keeps its place, its assignment and its leadership."""
        member = self.members[old_id]
        self.members = {
            (new_id if member_id == old_id else member_id): each
            for member_id, each in self.members.items()
        }
        member.member_id = new_id
        if member.instance_id is not None:
            self.static[member.instance_id] = new_id
        if old_id in self.unsynced:
            self.unsynced.discard(old_id)
            self.unsynced.add(new_id)
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    def elect_who_joined(self) -> bool:
        """The leader has to be one that takes part; False if nobody does."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.joining is not None:
            return True
        joined = [each.member_id for each in self.members.values() if each.joining is not None]
        if joined:
            self.leader_id = joined[0]
        return bool(joined)
