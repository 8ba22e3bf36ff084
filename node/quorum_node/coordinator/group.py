"""The state of one classic group: members, generation, and the chosen protocol. PURE.

Owns the members and all changes that keep them consistent with leader, instances and waiting requests. Must not know
when a rebalance begins or ends (`rebalance.py`), nor requests (`membership.py`).
Source: KIP-62, KIP-345 (static members), KIP-394 (member id required); the rules of a stock coordinator.
"""

from collections import Counter
from enum import Enum
from math import inf

from quorum_node.coordinator.members import Member
from quorum_node.coordinator.requests import JoinedMember


class GroupState(Enum):
    """The values are Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroup:
    """`since_ms`: start of the state, in milliseconds since 1970. The `…due_ms` are on the monotonic clock, inf for never.

    `pending`: assigned ids whose members have not joined yet, with their deadlines. `unsynced`: members that have not
    requested their assignment in this generation. `rest_ms`: remaining rebalance timeout of the first rebalance,
    which waits for more members; None in all others.
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

    # -- derived values

    @property
    def is_new(self) -> bool:
        """Whether nothing of the group was ever stored."""
        return not self.generation and self.protocol_type is None

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    @property
    def all_have_joined(self) -> bool:
        """Whether all expected members have joined this rebalance."""
        return not self.pending and all(each.joining is not None for each in self.members.values())

    @property
    def due_ms(self) -> float:
        """When the next timer expires."""
        sessions = min((each.due_ms for each in self.members.values()), default=inf)
        pending = min(self.pending.values(), default=inf)
        return min(sessions, pending, self.join_due_ms, self.sync_due_ms)

    def supports(self, protocol_type: str, names: tuple[str, ...]) -> bool:
        """Whether a member with these protocols can join the group."""
        if not protocol_type or not names:
            return False
        if not self.members:
            return True
        return protocol_type == self.protocol_type and bool(self._common() & set(names))

    def choose_protocol(self) -> str:
        """The protocol that all members support and most of them prefer. There is one, as other members are refused."""
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
        """Members with their subscriptions for the chosen protocol, for the leader."""
        return tuple(
            JoinedMember(each.member_id, each.instance_id, each.metadata(self.protocol))
            for each in self.members.values()
        )

    # -- changes

    def turn(self, state: GroupState, time_ms: int) -> None:
        """Enter another state."""
        self.state = state
        self.since_ms = time_ms

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member; the first one becomes leader."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self.pending.pop(member.member_id, None)
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> Member:
        """Remove a member; if it was the leader, another one becomes leader."""
        member = self.members.pop(member_id)
        if member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        self.unsynced.discard(member_id)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def rename(self, old_id: str, new_id: str) -> Member:
        """Give a static member a new id; it keeps its place, its assignment and its leadership."""
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

    def elect_joined_leader(self) -> bool:
        """Choose a leader that has joined; False if no member has."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.joining is not None:
            return True
        joined = [each.member_id for each in self.members.values() if each.joining is not None]
        if joined:
            self.leader_id = joined[0]
        return bool(joined)
