"""An intruder that puts questions to leaders and asks for changes of the voters.

It may fetch, ask for read offsets, and send AddVoter, RemoveVoter and AlterQuorum, as anybody may without authorization
(`admin.membership.on.controller.listener`). It removes no voter, and sets no target that does, while a disk is lost: no quorum
survives that.
"""

from collections.abc import Callable, Sequence
from uuid import UUID

from quorum_node.raft.alter_quorum import MAX_TARGET_VOTERS
from quorum_node.raft.messages import (
    AddVoterRequest,
    AlterQuorumRequest,
    DescribeQuorumRequest,
    FetchRequest,
    ReadOffsetRequest,
    RemoveVoterRequest,
    Request,
    VotersPosition,
)
from quorum_node.records.identity import ReplicaKey
from quorum_simulation.cluster import CLUSTER_ID
from quorum_simulation.faults.false_claims import BURST, NOBODY, OTHER_CLUSTER_ID, any_endpoint
from quorum_simulation.faults.family import FaultContext, Kind
from quorum_simulation.host import SimulatedHost

LONGEST_CHANGE_MS = 1000
_CLUSTER_IDS = (CLUSTER_ID, CLUSTER_ID, CLUSTER_ID, None, OTHER_CLUSTER_ID)
Forge = Callable[[SimulatedHost], Request | None]


class ForgedRequests:
    """See the module."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context
        self._random = context.random

    def kinds(self) -> Sequence[Kind]:
        """See `Family`."""
        return (
            Kind(
                "forged questions", lambda: self._burst((self._read, self._fetch, self._describe))
            ),
            Kind("forged changes", lambda: self._burst((self._add, self.removal, self._alter))),
        )

    def heal(self) -> None:
        """See `Family`."""

    def _burst(self, forges: Sequence[Forge]) -> bool:
        if not self._context.up_hosts():
            return False
        for _ in range(1 + self._random.randrange(BURST)):
            self._context.later(0, 300, self._send, self._random.choice(forges))
        return True

    def _send(self, forge: Forge) -> None:
        """To the leader mostly: the others refuse all of it."""
        hosts = self._context.up_hosts()
        leader = self._context.some_leader()
        if leader is None or self._random.random() < 0.2:
            if not hosts:
                return
            leader = self._random.choice(hosts)
        request = forge(leader)
        if request is not None:
            self._context.cluster.ask(leader, request, lambda response: None)

    # -- questions

    def _read(self, host: SimulatedHost) -> Request:
        return ReadOffsetRequest(
            self._random.choice(_CLUSTER_IDS),
            self._random.choice((-1, 0, 1 << 50)),
            stale=self._random.random() < 0.4,
        )

    def _fetch(self, host: SimulatedHost) -> Request:
        """Like a replica of the present epoch: it says that records were damaged, and claims to be far ahead."""
        replica = host.replica
        stranger = ReplicaKey(self._random.choice((901, -1)), UUID(int=901))
        return FetchRequest(
            self._random.choice(_CLUSTER_IDS),
            stranger,
            replica.epoch,
            self._random.choice((replica.log_end, self._random.randrange(replica.log_end + 10))),
            self._random.choice((replica.epochs.last_epoch, replica.epoch, -1)),
            max_wait_ms=self._random.choice((0, 500, 1 << 30)),
            high_watermark=replica.high_watermark,
            answer=self._random.choice((-1, 0, 1)),
            endpoints=self._random.choice(((), (NOBODY,))),
            corrupt=self._random.random() < 0.5,
        )

    def _describe(self, host: SimulatedHost) -> Request:
        return DescribeQuorumRequest()

    # -- changes of the voters

    def _add(self, host: SimulatedHost) -> Request:
        """A replica that does not exist, or a member, at any address."""
        return AddVoterRequest(
            self._random.choice(_CLUSTER_IDS),
            self._random.choice((self._stranger(), *self._wanted())),
            self._random.choice(((), (NOBODY,), (any_endpoint(self._context),))),
            self._timeout_ms(),
            self._expected(host),
            count_newcomer=self._random.random() < 0.3,
            ack_when_committed=self._random.random() < 0.7,
        )

    def removal(self, host: SimulatedHost) -> RemoveVoterRequest:
        """A member is among the possible voters only if the quorum can lose one."""
        keys = (
            (self._stranger(), *self._wanted()) if self._all_is_well(host) else (self._stranger(),)
        )
        key, expected = self._random.choice(keys), self._expected(host)
        return RemoveVoterRequest(
            self._random.choice(_CLUSTER_IDS), key, self._timeout_ms(), expected
        )

    def _alter(self, host: SimulatedHost) -> Request | None:
        wanted, stranger = self._wanted(), self._stranger()
        few = tuple(key for key in wanted if self._random.random() < 0.7)
        targets: list[tuple[ReplicaKey, ...] | None] = [
            (),
            None,
            (stranger,) * 2,
            tuple(ReplicaKey(number) for number in range(MAX_TARGET_VOTERS + 1)),
            (ReplicaKey(-5),),
        ]
        if self._all_is_well(host):
            targets += [wanted, few, (*wanted, stranger), (*few, stranger)]
        return AlterQuorumRequest(
            self._random.choice(_CLUSTER_IDS),
            self._random.choice(targets),
            self._timeout_ms(),
            self._expected(host),
        )

    def _all_is_well(self, asked: SimulatedHost) -> bool:
        """No disk of a member, or of a voter in the log of `asked`, is lost: a change may then be undone."""
        context = self._context
        if context.plan.death_is_news():
            return False
        known = map(context.cluster.host_of, asked.replica.voters.latest.voters.ordered_keys)
        concerned = [*context.cluster.members(), *(host for host in known if host is not None)]
        return not any(host.retired or host.machine.counts_as_lost for host in concerned)

    def _wanted(self) -> tuple[ReplicaKey, ...]:
        return tuple(host.key for host in self._context.plan.wanted)

    def _stranger(self) -> ReplicaKey:
        return ReplicaKey(self._random.randrange(1, 20), UUID(int=self._random.randrange(1 << 90)))

    def _expected(self, host: SimulatedHost) -> VotersPosition | None:
        return self._random.choice(
            (
                None,
                host.replica.committed_position(),
                VotersPosition(0, 0),
                VotersPosition(1 << 40, 1),
            )
        )

    def _timeout_ms(self) -> int:
        return self._random.choice((0, 50, LONGEST_CHANGE_MS))
