"""A quorum of simulated nodes: voters, leader, and the description by each node. Pure.

Owns the responses of the admin API as far as the operator uses it, without a log: live replicas are caught up, a live
majority has a leader, and the voters change one at a time by compare-and-set.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from quorum_node.api import (
    AddVoterRequest,
    ErrorBody,
    ErrorCode,
    NodeDescription,
    QuorumDescription,
    ReplicaStatus,
    Role,
    StorageDescription,
    StorageState,
    VoterModel,
    VotersPosition,
)

_STARTED_AT = "2026-01-01T00:00:00Z"


class Key(NamedTuple):
    """A replica."""

    id: int
    uuid: str


@dataclass
class SimulatedQuorum:
    """`alive`: replicas whose process runs on a working disk."""

    cluster_id: str
    initial_voters: int
    voters: list[Key] = field(default_factory=list)
    alive: set[Key] = field(default_factory=set)
    leader: Key | None = None
    epoch: int = 1
    offset: int = 0
    formed: bool = False

    def start(self, key: Key, *, founds: bool) -> None:
        """Its process starts. The founder forms the quorum if it does not exist."""
        if founds and not self.voters:
            self.voters = [key]
            self._note_formed()
        self.alive.add(key)
        self._elect()

    def stop(self, key: Key) -> None:
        """Its process or its disk has failed."""
        self.alive.discard(key)
        self._elect()

    def is_whole(self) -> bool:
        """Whether it has as many voters as at its formation, and all are live."""
        return len(self.voters) == self.initial_voters and self.alive.issuperset(self.voters)

    def has_majority(self) -> bool:
        living = [key for key in self.voters if key in self.alive]
        return len(living) > len(self.voters) // 2

    def describe_node(self, key: Key) -> NodeDescription:
        """GET /v1/node."""
        role = Role.FOLLOWER if key in self.voters else Role.OBSERVER
        leader = self.leader
        return NodeDescription(
            node_id=key.id,
            replica_uuid=key.uuid,
            cluster_id=self.cluster_id,
            role=Role.LEADER if key == leader else role,
            is_voter=key in self.voters,
            leader_id=None if leader is None else leader.id,
            leader_epoch=self.epoch,
            high_watermark=self.offset,
            log_end_offset=self.offset,
            log_start_offset=0,
            caught_up=leader is not None,
            formed=self.formed,
            storage=StorageDescription(state=StorageState.OK),
            started_at=_STARTED_AT,
            version="stand-in",
            log_end_epoch=self.epoch,
            voters=[VoterModel(id=each.id, uuid=each.uuid, endpoints=[]) for each in self.voters],
        )

    def describe(self, requested: Key) -> QuorumDescription:
        """GET /v1/quorum of one node; confirmed only on the leader."""
        leader = self.leader
        observers = sorted(self.alive - set(self.voters))
        return QuorumDescription(
            cluster_id=self.cluster_id,
            leader_id=None if leader is None else leader.id,
            leader_uuid=None if leader is None else leader.uuid,
            leader_epoch=self.epoch,
            high_watermark=self.offset,
            log_end_offset=self.offset,
            voters=[self._replica(each) for each in self.voters],
            observers=[self._replica(each) for each in observers],
            voters_position=VotersPosition(offset=self.offset, epoch=self.epoch, committed=True),
            pending_change=False,
            own_epoch_committed=leader is not None,
            formed=self.formed,
            initial_voters=self.initial_voters,
            confirmed=requested == leader and self.has_majority(),
            node_id=requested.id,
        )

    def add(self, requested: Key, request: AddVoterRequest) -> ErrorBody | None:
        """POST /v1/voters; returns the error, or None."""
        newcomer = Key(request.id, request.uuid)
        if (refused := self._refused(requested, request.expected_offset)) is not None:
            return refused
        if newcomer not in self.alive:
            return ErrorBody(code=ErrorCode.NOT_CAUGHT_UP, message="it does not fetch")
        self.voters.append(newcomer)
        self._changed()
        return None

    def remove(self, requested: Key, leaving: Key, expected_offset: int) -> ErrorBody | None:
        """DELETE /v1/voters; returns the error, or None."""
        if (refused := self._refused(requested, expected_offset)) is not None:
            return refused
        if leaving in self.voters:
            self.voters.remove(leaving)
            self._changed()
        return None

    def _refused(self, requested: Key, expected_offset: int | None) -> ErrorBody | None:
        if requested != self.leader:
            return ErrorBody(code=ErrorCode.NOT_LEADER, message="another one leads")
        if expected_offset not in {None, self.offset}:
            return ErrorBody(code=ErrorCode.STALE_POSITION, message="the voters have changed")
        return None

    def _changed(self) -> None:
        self.offset += 1
        self._note_formed()
        self._elect()

    def _note_formed(self) -> None:
        self.formed = self.formed or len(self.voters) >= self.initial_voters

    def _elect(self) -> None:
        if not self.has_majority():
            self.leader = None
        elif self.leader not in self.alive or self.leader not in self.voters:
            self.leader = min(key for key in self.voters if key in self.alive)
            self.epoch += 1

    def _replica(self, key: Key) -> ReplicaStatus:
        lives = key in self.alive and self.leader is not None
        return ReplicaStatus(
            id=key.id,
            uuid=key.uuid,
            log_end_offset=self.offset,
            lag=0,
            fetching=lives,
            caught_up=lives,
        )
