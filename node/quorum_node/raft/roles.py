"""The six roles, what each of them remembers, and which may follow which.

Owns role data and the transition table. Must not know how a transition is done (`transitions.py`).
Source: KIP-595, "State Machine"; KIP-650/996 (Prospective). An observer is a replica that is not in
its own latest voter set: it is Unattached or Follower and never campaigns.
"""

from dataclasses import dataclass, field
from enum import Enum

from quorum_node.raft.messages import KeepingUp
from quorum_node.records.identity import Endpoint, ReplicaKey


class RoleName(Enum):
    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"


TRANSITIONS: dict[RoleName, frozenset[RoleName]] = {
    RoleName.UNATTACHED: frozenset(
        {RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.PROSPECTIVE, RoleName.CANDIDATE}
    ),
    RoleName.FOLLOWER: frozenset(
        {RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.PROSPECTIVE, RoleName.CANDIDATE}
    ),
    RoleName.PROSPECTIVE: frozenset(
        {RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.PROSPECTIVE, RoleName.CANDIDATE}
    ),
    RoleName.CANDIDATE: frozenset({RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.LEADER}),
    RoleName.LEADER: frozenset({RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.RESIGNED}),
    RoleName.RESIGNED: frozenset({RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.CANDIDATE}),
}
"""What may follow what. A leader of an epoch never becomes leader of the same epoch again."""


class Link(Enum):
    """A follower's link to its leader. Only OPEN speaks against a pre-vote.

    SILENT: unanswered for half the fetch timeout. Whoever is not known as a voter still finds a live leader here.
    """

    OPEN = "open"
    SILENT = "silent"
    CLOSED = "closed"
    TIMED_OUT = "timed out"


@dataclass(slots=True)
class Unattached:
    """No known leader. `election_deadline_ms` is None where this replica must not campaign."""

    election_deadline_ms: float | None
    name: RoleName = field(default=RoleName.UNATTACHED, init=False)


@dataclass(frozen=True, slots=True)
class CorruptFetch:
    """What the leader sent from `offset` on can't be appended: its bytes are damaged, there or on the way.

    `times`: how often in a row. The replica asks again, later each time, and tells the leader.
    """

    leader_id: int
    leader_epoch: int
    offset: int
    times: int
    detail: str


@dataclass(slots=True)
class Follower:
    """Fetches from `endpoint`. One fetch is out at a time: `fetching` is its correlation.

    `fetch_deadline_ms` counts from the last answer, `silence_deadline_ms` from the first fetch after it (None: none was
    sent): a follower that did not ask, because its own disk is slow, has not heard silence. `excused`: the process itself
    was paused since, so the leader got more time once. `expects_little`: the last answer was small, so the next one
    needs no time to be sent, and a fetch that got lost is noticed before the leader seems silent.
    `downloading`: this leader named a snapshot, and its parts are fetched instead of the log.
    `introducing`, `introduced`: an observer tells, or has told, this leader where it listens.
    `corrupt`: what this leader sent last could not be appended.
    """

    leader_id: int
    endpoint: Endpoint
    fetch_deadline_ms: float
    silence_deadline_ms: float | None = None
    excused: bool = False
    expects_little: bool = False
    link: Link = Link.OPEN
    campaign_deadline_ms: float | None = None
    fetching: int | None = None
    retry_deadline_ms: float | None = None
    failures: int = 0
    answer: int = -1
    downloading: bool = False
    fetch_sent_ms: float = 0.0
    keeping_up: KeepingUp | None = None
    introducing: bool = False
    introduced: bool = False
    corrupt: CorruptFetch | None = None
    name: RoleName = field(default=RoleName.FOLLOWER, init=False)

    def is_live(self, now_ms: float) -> bool:
        """The leader may be silent, but its link is not closed and the fetch timeout is not over."""
        return self.link in (Link.OPEN, Link.SILENT) and now_ms < self.fetch_deadline_ms


@dataclass(slots=True)
class Prospective:
    """Asks whether it would be elected, in the epoch it has. `fallback`: the leader it doubts.

    `unasked`: voters whose software knows no pre-vote; they count once the doubted leader has not answered either.
    `asked_again`: how often voters that refused were asked once more.
    """

    deadline_ms: float
    fallback: Follower | None
    granted: set[ReplicaKey]
    rejected: set[ReplicaKey] = field(default_factory=set)
    unreachable: set[ReplicaKey] = field(default_factory=set)
    unasked: set[ReplicaKey] = field(default_factory=set)
    asked_again: int = 0
    retries: dict[ReplicaKey, float] = field(default_factory=dict)
    name: RoleName = field(default=RoleName.PROSPECTIVE, init=False)


@dataclass(slots=True)
class Candidate:
    """Asks for votes in a new epoch, having voted for itself. `retries`: when to ask again."""

    deadline_ms: float
    granted: set[ReplicaKey]
    rejected: set[ReplicaKey] = field(default_factory=set)
    unreachable: set[ReplicaKey] = field(default_factory=set)
    retries: dict[ReplicaKey, float] = field(default_factory=dict)
    name: RoleName = field(default=RoleName.CANDIDATE, init=False)


@dataclass(slots=True)
class Resigned:
    """Was leader of this epoch and gave it up; waits for the next one, then joins in."""

    deadline_ms: float
    name: RoleName = field(default=RoleName.RESIGNED, init=False)
