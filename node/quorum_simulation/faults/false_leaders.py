"""A false leader of the present epoch: it answers one fetch, without records, and is never seen again.

One host sends a victim there, as an address that was announced for it, or a server that the victim asks, may do. Afterwards the
victim is bound to a leader that does not exist, in an epoch that may last for months. Nothing else has to go wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from quorum_node.raft.errors import RaftError
from quorum_node.raft.messages import (
    CurrentLeader,
    FetchRequest,
    FetchResponse,
    InboundResponse,
)
from quorum_node.records.identity import Endpoint
from quorum_simulation.faults.false_claims import any_key
from quorum_simulation.faults.family import FaultContext, Kind
from quorum_simulation.host import SimulatedHost
from quorum_simulation.network import Waiting

NEWER_SHARE = 0.2
"""Share of false leaders of the next epoch. The others lead the present one."""


@dataclass(slots=True)
class _FalseLeader:
    """`accomplice`: address of the host that names it to the victim. `has_answered`: it is gone."""

    id: int
    endpoint: Endpoint
    accomplice: str
    victim: str
    step: int
    has_answered: bool = False


class FalseLeaders:
    """See the module."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context
        self._random = context.random
        self._present: _FalseLeader | None = None
        self._number = 0

    def kinds(self) -> Sequence[Kind]:
        """See `Family`."""
        return (Kind("false leaders", self._appear),)

    def heal(self) -> None:
        """See `Family`."""
        self._present = None

    def _appear(self) -> bool:
        hosts = self._context.up_hosts()
        if len(hosts) < 2:
            return False
        leader = self._context.some_leader()
        accomplice = self._random.choice(hosts)
        if leader in hosts and self._random.random() < 0.5:
            accomplice = leader
        victim = self._random.choice([host for host in hosts if host is not accomplice])
        self._number += 1
        self._present = _FalseLeader(
            any_key(self._context).id,
            Endpoint("CONTROLLER", f"false-leader-{self._number}", 9093),
            accomplice.address,
            victim.address,
            int(self._random.random() < NEWER_SHARE),
        )
        for partition in self._context.cluster.partitions:
            if self._forged not in partition.network.intruders:
                partition.network.intruders.append(self._forged)
        self._context.later(200, 3000, self._disappear, self._number)
        return True

    def _disappear(self, number: int) -> None:
        if number == self._number:
            self._present = None

    def _forged(self, address: str, waiting: Waiting) -> InboundResponse | None:
        false, asking = self._present, waiting.source
        if (
            false is None
            or false.has_answered
            or asking.address != false.victim
            or not isinstance(waiting.request, FetchRequest)
        ):
            return None
        followed = asking.replica.current_leader()
        if address == false.endpoint.host and followed.endpoint == false.endpoint:
            # A leader of the real quorum may have to begin an epoch to get the victim back.
            asking.cluster.disturbances += 1
            false.has_answered = True
            return FetchResponse(RaftError.NONE, followed)
        if address == false.accomplice and followed.endpoint != false.endpoint:
            asking.cluster.watch.request_failed(asking)
            return FetchResponse(RaftError.NOT_QUORUM_LEADER, self._claim(asking, false))
        return None

    @staticmethod
    def _claim(asking: SimulatedHost, false: _FalseLeader) -> CurrentLeader:
        """A replica that is no voter could not follow the quorum in a forged epoch: see docs/explanation/peer-requests.md."""
        replica = asking.replica
        step = false.step if replica.is_voter and not replica.ids_only else 0
        asking.cluster.disturbances += step
        return CurrentLeader(false.id, replica.epoch + step, false.endpoint)
