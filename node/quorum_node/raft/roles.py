"""The six roles, their data, and the permitted transitions.

Owns role data and the transition table. Must not know how a transition is done (`transitions.py`).
Source: KIP-595, "State Machine"; KIP-650/996 (Prospective). An observer is a replica that is not in
its own latest voter set. It is Unattached or Follower and never starts an election.
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
"""Permitted transitions. A former leader of an epoch never becomes leader of the same epoch again."""


class Link(Enum):
    """A follower's link to its leader. Pre-votes are refused only while it is OPEN.

    SILENT: no response for half the fetch timeout. A sender that is not a known voter is still
    referred to this leader.
    """

    OPEN = "open"
    SILENT = "silent"
    CLOSED = "closed"
    TIMED_OUT = "timed out"


@dataclass(slots=True)
class Unattached:
    """No known leader. `election_deadline_ms` is None if this replica must not start an election."""

    election_deadline_ms: float | None
    name: RoleName = field(default=RoleName.UNATTACHED, init=False)


@dataclass(frozen=True, slots=True)
class CorruptFetch:
    """The leader's records from `offset` on can't be appended: they are damaged, there or on the way.

    `times`: failures in a row. The replica fetches again after a growing delay, and reports it to
    the leader.
    """

    leader_id: int
    leader_epoch: int
    offset: int
    times: int
    detail: str


@dataclass(slots=True)
class Follower:
    """Fetches from `endpoint`.

    `fetching`: correlation of the only fetch in flight.
    `fetch_deadline_ms`: counts from the last response.
    `silence_deadline_ms`: counts from the first fetch after it (None: none was sent). A follower
    that sent no fetch, because its own disk is slow, can't judge the leader's silence.
    `excused`: this process was paused since, so the leader got more time once.
    `expects_small_answer`: the last response was small. The next one gets a short timeout, so that a lost
    fetch is noticed before the leader seems silent.
    `downloading`: this leader named a snapshot, and its parts are fetched instead of the log.
    `introducing`, `introduced`: an observer is sending, or has sent, its address to this leader.
    `corrupt`: the last records of this leader could not be appended.
    `hearsay`: another replica named this leader, and it has not answered since.
    """

    leader_id: int
    endpoint: Endpoint
    fetch_deadline_ms: float
    silence_deadline_ms: float | None = None
    excused: bool = False
    expects_small_answer: bool = False
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
    hearsay: bool = False
    name: RoleName = field(default=RoleName.FOLLOWER, init=False)

    def is_live(self, now_ms: float) -> bool:
        """The leader may be silent, but its link is not closed and the fetch timeout has not passed."""
        return self.link in (Link.OPEN, Link.SILENT) and now_ms < self.fetch_deadline_ms


@dataclass(slots=True)
class Prospective:
    """A pre-vote in the present epoch. `fallback`: the leader that may have failed.

    `unasked`: voters whose software does not support pre-votes. They count once the leader has not
    responded either. `asked_again`: how often voters that refused were asked once more.
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
    """Requests votes in a new epoch, having voted for itself. `retries`: when to ask again."""

    deadline_ms: float
    granted: set[ReplicaKey]
    rejected: set[ReplicaKey] = field(default_factory=set)
    unreachable: set[ReplicaKey] = field(default_factory=set)
    retries: dict[ReplicaKey, float] = field(default_factory=dict)
    name: RoleName = field(default=RoleName.CANDIDATE, init=False)


@dataclass(slots=True)
class Resigned:
    """Was leader of this epoch and resigned. Waits for the next leader."""

    deadline_ms: float
    name: RoleName = field(default=RoleName.RESIGNED, init=False)
