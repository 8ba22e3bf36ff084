"""An intruder that sends well-formed messages: votes, claims of leadership, ends of epochs, addresses, fetches.

Its messages are limited to those that a node has to survive without authentication. It requests votes and claims
leadership under any id, and knows the cluster id, all keys, epochs and offsets. It fetches under its own id only: a
fetch acknowledges records of a replica, and only a certificate could authenticate it. It changes voters by
UpdateRaftVoter only: adding and removing them needs authorization.
"""

from collections.abc import Callable, Sequence
from uuid import UUID

from quorum_node.raft.epoch_bound import MAX_STEP
from quorum_node.raft.messages import (
    BeginQuorumEpochRequest,
    DiscoverBrokersRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    UpdateVoterRequest,
    VoteRequest,
)
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.snapshot_id import SnapshotId
from quorum_simulation.cluster import CLUSTER_ID
from quorum_simulation.faults.false_claims import (
    BURST,
    LARGEST_EPOCH,
    NOBODY,
    any_endpoint,
    any_key,
)
from quorum_simulation.faults.family import FaultContext, Kind
from quorum_simulation.host import SimulatedHost


class ForgeryFaults:
    """See the module."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context
        self._random = context.random

    def kinds(self) -> Sequence[Kind]:
        """See `Family`."""
        return (
            Kind("forged votes", lambda: self._burst(self._vote)),
            Kind("forged leaders", lambda: self._burst(self._begin)),
            Kind("forged ends", lambda: self._burst(self._end)),
            Kind("forged addresses", lambda: self._burst(self._address)),
            Kind("forged fetches", lambda: self._burst(self._fetch)),
        )

    def heal(self) -> None:
        """See `Family`."""

    def _burst(self, forge: Callable[[SimulatedHost], Request]) -> bool:
        hosts = self._context.up_hosts()
        if not hosts:
            return False
        for _ in range(1 + self._random.randrange(BURST)):
            self._context.later(0, 300, self._send, self._random.choice(hosts), forge)
        return True

    def _send(self, host: SimulatedHost, forge: Callable[[SimulatedHost], Request]) -> None:
        if host.up:
            self._context.cluster.ask(host, forge(host), lambda response: None)

    def _vote(self, host: SimulatedHost) -> Request:
        """An observer without contact to a leader is not targeted: see docs/explanation/peer-requests.md, "What a peer
        is believed".
        """
        replica = host.replica
        last_epoch = self._random.choice((replica.epochs.last_epoch, self._epoch(host)))
        return VoteRequest(
            CLUSTER_ID,
            any_key(self._context),
            self._believable_epoch(host),
            last_epoch,
            replica.log_end + self._random.randrange(1000),
            self._random.choice((host.key, any_key(self._context), None)),
            pre_vote=self._random.random() < 0.4,
        )

    def _begin(self, host: SimulatedHost) -> Request:
        voter = self._random.choice((host.key, None))
        endpoint = self._random.choice((None, NOBODY, any_endpoint(self._context)))
        return BeginQuorumEpochRequest(
            CLUSTER_ID, any_key(self._context).id, self._epoch(host), voter, endpoint
        )

    def _end(self, host: SimulatedHost) -> Request:
        leader_id = self._random.choice((-1, any_key(self._context).id, host.replica.leader_id))
        successors = (any_key(self._context), host.key) if self._random.random() < 0.7 else ()
        self._context.cluster.forged_end_ms = self._context.cluster.scheduler.now_ms
        return EndQuorumEpochRequest(CLUSTER_ID, leader_id, self._epoch(host), successors)

    def _address(self, host: SimulatedHost) -> Request:
        """Announce a false address of a voter."""
        key, epoch = any_key(self._context), host.replica.epoch
        if self._random.random() < 0.5:
            return DiscoverBrokersRequest(key, self._random.randrange(1 << 50), NOBODY)
        # Not in the voter's own name: such a request can't be distinguished from the voter's.
        stranger = ReplicaKey(key.id, UUID(int=self._random.randrange(1 << 100)))
        return UpdateVoterRequest(CLUSTER_ID, stranger, (NOBODY,), 1000, epoch)

    def _fetch(self, host: SimulatedHost) -> Request:
        replica = host.replica
        own = ReplicaKey(self._random.choice((900, host.key.id)), UUID(int=900))
        epoch = self._epoch(host)
        position = self._random.randrange(1 << 20)
        if self._random.random() < 0.3:
            wanted = SnapshotId(self._random.randrange(replica.log_end + 10), epoch)
            return FetchSnapshotRequest(CLUSTER_ID, own, epoch, wanted, position, 1 << 20)
        return FetchRequest(
            CLUSTER_ID,
            own,
            epoch,
            self._random.choice((replica.log_end, position, 0)),
            self._random.choice((replica.epochs.last_epoch, epoch)),
            max_wait_ms=self._random.choice((0, 500, 1 << 30)),
            answer=self._random.choice((-1, 0, 1 << 40)),
            corrupt=self._random.random() < 0.3,
        )

    def _believable_epoch(self, host: SimulatedHost) -> int:
        epoch = self._epoch(host)
        replica = host.replica
        knows_voters = replica.is_voter and not (replica.ids_only and self._has_formed())
        is_safe = knows_voters or replica.has_live_leader()
        return epoch if is_safe else min(epoch, replica.epoch)

    def _has_formed(self) -> bool:
        """Whether a static quorum has voters that a replica with an empty disk does not know yet."""
        hosts = self._context.cluster.hosts.values()
        return any(host.was_up and not host.replica.ids_only for host in hosts)

    def _epoch(self, host: SimulatedHost) -> int:
        epoch = host.replica.epoch
        steps = (0, 0, 1, 1, 2, 100, MAX_STEP, MAX_STEP + 1)
        told = self._random.choice([epoch + step for step in steps] + [LARGEST_EPOCH, epoch - 1])
        return max(0, min(told, LARGEST_EPOCH))
