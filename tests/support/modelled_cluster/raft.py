"""The quorum of a modelled cluster: replicas on disks, processes that reach each other or not, elections, and voter changes.

Owns one cluster id. A log is its end offset, the epoch of its last record, and the voters in it. `problems`: what must never happen.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from quorum_node.api import AddVoterRequest, ErrorBody, ErrorCode
from quorum_node.quorum_arithmetic import live_to_add, live_to_remove, majority
from support.modelled_cluster.volumes import Replica

FETCH_TIMEOUT_S = 2.0
ELECTION_S = 1.0
CATCH_UP_S = 1.0
"""From the start of an empty replica until it has caught up."""


class Key(NamedTuple):
    id: int
    uuid: str


@dataclass
class Peer:
    """A process that serves a replica. `reaches`: the operator, and other peers by key."""

    key: Key
    replica: Replica
    since: float
    fetched_at: float = float("-inf")
    reached_since: float | None = None


@dataclass
class ModelledQuorum:
    """`link(a, b)`: whether two processes reach each other, by key."""

    cluster_id: str
    initial_voters: int
    link: Callable[[Key, Key], bool]
    voters_changed: Callable[[], None] = lambda: None
    peers: dict[Key, Peer] = field(default_factory=dict)
    voters: list[Key] = field(default_factory=list)
    leader: Key | None = None
    epoch: int = 0
    committed: int = 0
    voters_offset: int = 0
    voters_epoch: int = 0
    formed: bool = False
    recovered_epoch: int = 0
    target: list[int] | None = None
    problems: list[str] = field(default_factory=list)
    _vacant_since: float | None = None
    _alone_since: float | None = None
    _gone: dict[Key, float] = field(default_factory=dict)
    """When a process that has ended fetched last."""

    # ---- Processes

    def start(self, key: Key, replica: Replica, now: float) -> None:
        self.peers[key] = Peer(key, replica, now)

    def stop(self, key: Key) -> None:
        peer = self.peers.pop(key, None)
        if peer is not None:
            self._gone[key] = peer.fetched_at

    def found(self, replica: Replica) -> None:
        """The founder formats its directory. Not twice: records of the first time would be lost."""
        key = Key(replica.node_id, replica.uuid)
        if self.voters:
            self.problems.append(f"{key} founds the cluster {self.cluster_id} again")
            return
        self.voters, self.epoch, self.voters_offset = [key], 1, 1
        self.formed = self.initial_voters == 1
        replica.epoch, replica.end = 1, 2
        self._note_voters(replica)

    def recover(self, replica: Replica, uuid: str) -> None:
        """The replica becomes the sole voter, with another UUID."""
        replica.uuid = uuid
        self.epoch += 1
        self.voters, self.recovered_epoch = [Key(replica.node_id, uuid)], self.epoch
        self.committed, self.leader, self.target = replica.end, None, None
        replica.epoch, self.voters_offset, self.voters_epoch = self.epoch, replica.end, self.epoch
        replica.end += 1
        self._note_voters(replica)

    # ---- Time

    def step(self, now: float) -> None:
        self._check_leader(now)
        if self.leader is None:
            self._elect(now)
        if self.leader is not None:
            self._replicate(now)
            self._pursue_target()

    def contact(self) -> set[Key]:
        """Peers that the leader and that reach the leader."""
        leader = self.leader
        if leader is None or leader not in self.peers:
            return set()
        return {leader} | {key for key in self.peers if key == leader or self.link(leader, key)}

    def has_majority(self) -> bool:
        return len(self.contact() & set(self.voters)) >= majority(max(len(self.voters), 1))

    def _check_leader(self, now: float) -> None:
        if self.leader is None:
            return
        if self.leader not in self.peers or self.leader not in self.voters:
            self.leader, self._vacant_since, self._alone_since = None, now, None
        elif self.has_majority():
            self._alone_since = None
        else:
            self._alone_since = now if self._alone_since is None else self._alone_since
            if now - self._alone_since > FETCH_TIMEOUT_S:
                self.leader, self._vacant_since, self._alone_since = None, now, None

    def _elect(self, now: float) -> None:
        if self._vacant_since is None:
            self._vacant_since = now - ELECTION_S
        if now - self._vacant_since < ELECTION_S or not self.voters:
            return
        present = [self.peers[key] for key in self.voters if key in self.peers]
        newest = {each.id: each for each in self.voters}
        order = sorted(present, key=lambda each: (*_reversed(each.replica), each.key))
        for each in order:
            if newest[each.key.id] != each.key:
                continue  # While an id is doubled only its newest key campaigns.
            length = each.replica.epoch, each.replica.end
            votes = [
                other
                for other in present
                if other is each or self.link(each.key, other.key)
                if (other.replica.epoch, other.replica.end) <= length
            ]
            if len(votes) < majority(len(self.voters)):
                continue
            if each.replica.end < self.committed:
                self.problems.append(
                    f"{each.key} leads with records to {each.replica.end} of {self.committed} that were committed"
                )
            self.epoch += 1
            self.leader, self._vacant_since = each.key, None
            each.replica.epoch, each.replica.end = self.epoch, each.replica.end + 1
            return

    def _replicate(self, now: float) -> None:
        assert self.leader is not None
        leader, contact = self.peers[self.leader], self.contact()
        if not self.has_majority():
            return
        if self.formed:
            leader.replica.end += 1  # The load.
        for key, peer in self.peers.items():
            if key not in contact:
                peer.reached_since = None
                continue
            peer.reached_since = now if peer.reached_since is None else peer.reached_since
            peer.fetched_at = now
            behind = leader.replica.end - peer.replica.end
            if now - peer.reached_since >= CATCH_UP_S or 0 <= behind <= 4:
                peer.replica.end, peer.replica.epoch = leader.replica.end, leader.replica.epoch
                self._note_voters(peer.replica)
        ends = sorted((self._end_of(key) for key in self.voters), reverse=True)
        self.committed = max(self.committed, ends[majority(len(ends)) - 1])

    def _end_of(self, key: Key) -> int:
        peer = self.peers.get(key)
        return peer.replica.end if peer is not None else 0

    def _note_voters(self, replica: Replica) -> None:
        replica.voters, replica.formed = frozenset(self.voters), self.formed

    def _pursue_target(self) -> None:
        if self.target is None:
            return
        surplus = [key for key in self.voters if key.id not in self.target]
        going = [key for key in surplus if key != self.leader]
        if going and self._refuses_removal(going[0]) is None:
            self._change([key for key in self.voters if key != going[0]])
        elif surplus and not going:
            others = sorted(key for key in self.contact() & set(self.voters) if key != self.leader)
            if others:
                self._lead(others[0])
        elif {key.id for key in self.voters} == set(self.target):
            self.target = None

    # ---- What the leader says

    def is_live(self, key: Key, now: float) -> bool:
        """Whether a voter fetches and has caught up, as far as the leader knows."""
        return self.fetches(key, now) and self.has_caught_up(key)

    def fetches(self, key: Key, now: float) -> bool:
        if key == self.leader:
            return True
        peer = self.peers.get(key)
        at = peer.fetched_at if peer is not None else self._gone.get(key, float("-inf"))
        return now - at < FETCH_TIMEOUT_S

    def has_caught_up(self, key: Key) -> bool:
        peer = self.peers.get(key)
        if self.leader is None or peer is None or self.leader not in self.peers:
            return False
        return self.peers[self.leader].replica.end - peer.replica.end <= 8

    # ---- Requests

    def add(self, at: Key, request: AddVoterRequest, now: float) -> ErrorBody | None:
        newcomer = Key(request.id, request.uuid)
        refused = self._refused(at, request.expected_offset, request.expected_epoch)
        if refused is not None:
            return refused
        if newcomer in self.voters:
            return None
        if newcomer not in self.peers or not self.is_live(newcomer, now):
            return _error(ErrorCode.NOT_CAUGHT_UP, "it does not fetch, or lags behind")
        live = len(self.contact() & set(self.voters)) + bool(request.count_newcomer)
        if self.formed and live < live_to_add(len(self.voters)):
            return _error(ErrorCode.UNSAFE_CHANGE, "too few voters are live")
        self._change([*self.voters, newcomer])
        return None

    def remove(
        self, at: Key, leaving: Key, offset: int | None, epoch: int | None
    ) -> ErrorBody | None:
        refused = self._refused(at, offset, epoch) or self._refuses_removal(leaving)
        if refused is not None:
            return refused
        if leaving in self.voters:
            self._change([key for key in self.voters if key != leaving])
        return None

    def resign(self, at: Key, successor: int | None) -> ErrorBody | None:
        if at != self.leader:
            return _error(ErrorCode.NOT_LEADER, "another one leads")
        others = [key for key in self.contact() & set(self.voters) if key != self.leader]
        wanted = sorted(key for key in others if successor in (None, key.id))
        if wanted:
            self._lead(wanted[-1])
        return None

    def alter(self, at: Key, target: list[int] | None) -> ErrorBody | None:
        if at != self.leader:
            return _error(ErrorCode.NOT_LEADER, "another one leads")
        self.target = target
        return None

    def _refuses_removal(self, leaving: Key) -> ErrorBody | None:
        left = len((self.contact() & set(self.voters)) - {leaving})
        if len(self.voters) < 2 or left < live_to_remove(len(self.voters)):
            return _error(ErrorCode.UNSAFE_CHANGE, "too few voters would be live")
        return None

    def _refused(self, at: Key, offset: int | None, epoch: int | None) -> ErrorBody | None:
        if at != self.leader or not self.has_majority():
            return _error(ErrorCode.NOT_LEADER, "another one leads")
        if self.target is not None:
            return _error(ErrorCode.CHANGE_PENDING, "a target is set")
        if offset not in (None, self.voters_offset) or epoch not in (None, self.voters_epoch):
            return _error(ErrorCode.STALE_POSITION, "the voters have changed")
        return None

    def _lead(self, key: Key) -> None:
        self.epoch += 1
        self.leader = key
        replica = self.peers[key].replica
        replica.epoch, replica.end = self.epoch, max(replica.end, self.committed) + 1

    def _change(self, voters: list[Key]) -> None:
        assert self.leader is not None
        replica = self.peers[self.leader].replica
        replica.end += 1
        self.voters, self.voters_offset, self.voters_epoch = voters, replica.end - 1, self.epoch
        self.formed = self.formed or len(voters) >= self.initial_voters
        self._note_voters(replica)
        self.voters_changed()


def _reversed(replica: Replica) -> tuple[int, int]:
    return -replica.epoch, -replica.end


def _error(code: ErrorCode, message: str) -> ErrorBody:
    return ErrorBody(code=code, message=message)
