"""An intruder that answers: without a question, at an address that it has announced, and as one host that does not tell the truth.

Its answers are limited to those that a node has to survive without authentication. It refuses, withholds records, and names
false leaders, epochs, addresses and cluster ids. It never grants a vote, sends records or states an offset: an answer counts as that of the
replica that was asked, and Raft tolerates no voter that lies about these. An answer without a question may contain all of them.
"""

from collections.abc import Sequence
from dataclasses import replace

from quorum_node.raft.endpoint_gossip import ReceivedEndpoint
from quorum_node.raft.epoch_bound import MAX_LEAP_EPOCH, MAX_STEP
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import ResponseReceived
from quorum_node.raft.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    CurrentLeader,
    DiscoverBrokersRequest,
    DiscoverBrokersResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    InboundResponse,
    OutboundRequest,
    ReadOffsetRequest,
    ReadOffsetResponse,
    VoteRequest,
    VoteResponse,
)
from quorum_node.records.identity import KEEPS_TARGET_VOTERS, Endpoint
from quorum_simulation.cluster import CLUSTER_ID
from quorum_simulation.faults.false_claims import (
    BURST,
    LARGEST_EPOCH,
    NOBODY,
    OTHER_CLUSTER_ID,
    any_key,
)
from quorum_simulation.faults.family import FaultContext, Kind
from quorum_simulation.host import SimulatedHost
from quorum_simulation.network import Waiting

FALSE_SHARE = 0.4
"""Share of false answers while the intruder answers."""
LEAST_VOTERS = 3
"""In a smaller quorum, one peer that refuses the cluster id is believed."""
_STEPS = (0, 0, 0, 1, 2, 100, MAX_STEP, MAX_STEP + 1)
_DISTANT = (MAX_LEAP_EPOCH, LARGEST_EPOCH)
_UNKNOWN = CurrentLeader(-1, 0)
_REFUSALS: tuple[RaftError, ...] = tuple(
    error
    for error in RaftError
    if error not in (RaftError.NONE, RaftError.NOT_FOLLOWER, RaftError.INVALID_CLUSTER_ID)
)


class ForgedAnswers:
    """See the module."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context
        self._random = context.random
        self._liar: str | None = None
        """Address of the host that does not tell the truth: one at a time, until it is retired."""
        self._number = 0

    def kinds(self) -> Sequence[Kind]:
        """See `Family`."""
        return (
            Kind("answers to nothing", self._answer_nothing),
            Kind("altered answers", self._alter),
        )

    def heal(self) -> None:
        """See `Family`."""
        self._lie(False)

    # -- answers without a question

    def _answer_nothing(self) -> bool:
        hosts = self._context.up_hosts()
        if not hosts:
            return False
        for _ in range(1 + self._random.randrange(BURST)):
            self._context.later(0, 300, self._unasked, self._random.choice(hosts))
        return True

    def _unasked(self, host: SimulatedHost) -> None:
        """With a number that belongs to no request under way; it may be that of an earlier or a later one."""
        if not host.up:
            return
        outstanding = host.replica.outstanding
        number = max(outstanding, default=1) + self._random.randrange(-50, 50)
        if number in outstanding:
            return
        leader = self._false_leader(host, _UNKNOWN, self._any_epoch(host))
        host.handle(host.run, ResponseReceived(number, self._any_answer(host, leader)))

    def _any_answer(self, host: SimulatedHost, leader: CurrentLeader) -> InboundResponse:
        made: tuple[InboundResponse, ...] = (
            VoteResponse(RaftError.NONE, leader, vote_granted=True),
            BeginQuorumEpochResponse(RaftError.NONE, leader),
            EndQuorumEpochResponse(RaftError.NONE, leader),
            FetchResponse(RaftError.NONE, leader, high_watermark=1 << 40),
            FetchResponse(RaftError.NOT_QUORUM_LEADER, leader),
            ReadOffsetResponse(RaftError.NONE, leader, 0),
            self._addresses(host, leader, OTHER_CLUSTER_ID),
        )
        return self._random.choice(made)

    # -- false answers to questions

    def _alter(self) -> bool:
        hosts = {host.address: host for host in self._context.up_hosts()}
        if self._liar is None or self._context.cluster.hosts[self._liar].retired:
            self._liar = self._random.choice(list(hosts)) if hosts else None
        if self._liar not in hosts:
            return False
        self._number += 1
        self._lie(True)
        self._context.later(200, 2000, self._tell_the_truth, self._number)
        return True

    def _tell_the_truth(self, number: int) -> None:
        if number == self._number:
            self._lie(False)

    def _lie(self, lies: bool) -> None:
        for partition in self._context.cluster.partitions:
            intruders = partition.network.intruders
            if self._forged in intruders:
                intruders.remove(self._forged)
            if lies:
                intruders.append(self._forged)

    def _forged(self, address: str, waiting: Waiting) -> InboundResponse | None:
        """The answer of this host, instead of its own; None if it is to give its own."""
        if address not in (self._liar, NOBODY.host):
            return None
        if address != NOBODY.host and self._random.random() > FALSE_SHARE:
            return None
        asking = waiting.source
        asking.cluster.watch.request_failed(asking)
        leader = self._false_leader(asking, asking.replica.current_leader())
        asking.cluster.disturbances += leader.leader_epoch > asking.replica.epoch
        return self._false_answer(asking, waiting.request, leader)

    def _false_answer(
        self, asking: SimulatedHost, request: OutboundRequest, leader: CurrentLeader
    ) -> InboundResponse | None:
        error: RaftError = self._random.choice(_REFUSALS)
        may_refuse = len(asking.replica.voters.latest.voters) >= LEAST_VOTERS
        if may_refuse and self._random.random() < 0.1:
            error = RaftError.INVALID_CLUSTER_ID
        match request:
            case VoteRequest():
                return VoteResponse(error, leader)
            case BeginQuorumEpochRequest():
                return BeginQuorumEpochResponse(error, leader)
            case EndQuorumEpochRequest():
                return EndQuorumEpochResponse(error, leader)
            case FetchRequest():
                return FetchResponse(error, leader)
            case FetchSnapshotRequest():
                return FetchSnapshotResponse(error, leader, request.snapshot_id)
            case ReadOffsetRequest():
                return ReadOffsetResponse(error, leader)
            case DiscoverBrokersRequest():
                cluster_id = OTHER_CLUSTER_ID if error is RaftError.INVALID_CLUSTER_ID else None
                return self._addresses(asking, leader, cluster_id)
            case ApiVersionsRequest():
                return ApiVersionsResponse(RaftError.NONE, 0, 1, KEEPS_TARGET_VOTERS)
        return None

    def _addresses(
        self, host: SimulatedHost, leader: CurrentLeader, cluster_id: str | None
    ) -> DiscoverBrokersResponse:
        boot_ms = self._random.randrange(1 << 54)
        heard = tuple(
            ReceivedEndpoint(any_key(self._context), boot_ms, self._endpoint())
            for _ in range(self._random.randrange(3))
        )
        told = self._random.choice((cluster_id, CLUSTER_ID)) if cluster_id else CLUSTER_ID
        return DiscoverBrokersResponse(RaftError.NONE, leader, told, heard)

    # -- false claims

    def _false_leader(
        self, asking: SimulatedHost, known: CurrentLeader, epoch: int | None = None
    ) -> CurrentLeader:
        """Whom it says to lead, where, and in which epoch."""
        if epoch is None:
            epoch = self._believable_epoch(asking)
        leader_id = self._random.choice((-1, known.leader_id, any_key(self._context).id))
        endpoint = self._random.choice((None, self._endpoint()))
        return replace(known, leader_id=leader_id, leader_epoch=epoch, endpoint=endpoint)

    def _believable_epoch(self, asking: SimulatedHost) -> int:
        """A replica that is no voter could not follow the quorum in a forged epoch: see docs/explanation/peer-requests.md."""
        replica = asking.replica
        epoch = self._any_epoch(asking)
        return epoch if replica.is_voter and not replica.ids_only else min(epoch, replica.epoch)

    def _any_epoch(self, host: SimulatedHost) -> int:
        epoch = host.replica.epoch
        if self._random.random() < 0.1:
            return self._random.choice(_DISTANT)
        return min(max(0, epoch + self._random.choice((-1, *_STEPS))), LARGEST_EPOCH)

    def _endpoint(self) -> Endpoint:
        address = self._random.choice([*self._context.cluster.hosts, NOBODY.host])
        return Endpoint("CONTROLLER", address, 9093)
