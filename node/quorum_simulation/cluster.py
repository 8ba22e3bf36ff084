"""The simulated cluster: hosts, network, time, clients and invariants.

Owns the hosts, and requests from outside to them. Must not know the story (`story.py`).
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from uuid import UUID

from quorum_node.raft import RaftConfig
from quorum_node.raft.events import RequestReceived
from quorum_node.raft.messages import Request, Response
from quorum_node.raft.outputs import RoleChanged, VotersChanged
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter
from quorum_simulation.clients import Clients
from quorum_simulation.clock import Clock
from quorum_simulation.host import SimulatedHost
from quorum_simulation.machine import Machine
from quorum_simulation.network import Network
from quorum_simulation.recovered import Recovered
from quorum_simulation.scheduler import Scheduler
from quorum_simulation.watch import Watch

CLUSTER_ID = "simulated-cluster-id00"
OUTSIDE_ID = 1_000_000_000
"""Request ids from here on belong to external requests, not to hosts."""


class Cluster:
    """The whole simulation depends on `seed` only."""

    def __init__(self, seed: int, initial_voters: int, first: "Cluster | None" = None) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.scheduler: Scheduler = Scheduler() if first is None else first.scheduler
        self.network = Network(self.scheduler, Random(seed + 1))
        self.second: Cluster | None = None
        """The other quorum partition of the same machines, if there is one."""
        self._number = 0
        if first is not None:
            first.second = self
            self._number = 1
            self.network.blocked = first.network.blocked
        self.watch = Watch()
        self.clients = Clients(self, Random(seed + 2), writers=3, readers=4)
        self.hosts: dict[str, SimulatedHost] = {}
        self.initial_voters = initial_voters
        self.controlled = False
        """Whether the controller runs on top: clients and brokers write through it, and no snapshots are made."""
        self.recovered: Recovered | None = None
        """The recovery in which a survivor became the sole voter, so that committed records may be lost (`recovery.py`)."""
        self.recovery_counts: Counter[str] = Counter()
        """Results of a recovery, and hosts that detected the older quorum."""
        self.with_witness = False
        """Whether one member at a time is a witness."""
        self.on_role: Callable[[SimulatedHost, RoleChanged], None] = lambda host, change: None
        self.on_voters: Callable[[SimulatedHost, VotersChanged], None] = lambda host, change: None
        self.on_download: Callable[[SimulatedHost], None] = lambda host: None
        self.silence_share = 0.5
        """RaftConfig.silence_share of every host that is added from now on."""
        self.snapshot_counts: Counter[str] = Counter()
        self.forged_end_ms = float("-inf")
        """Time of the last forged end of an epoch, which only certificates could prevent."""
        self.disturbances = 0
        """Number of faults and of changes of voters so far: possible causes of a leader change."""
        self.snapshot_every = Random(seed + 6).choice((None, None, 16, 40, 120))
        """Records between two snapshots; None: each replica at random."""
        self.static_ids: tuple[int, ...] = ()
        """controller.quorum.voters of every host that is added from now on."""
        self._incarnations: dict[int, int] = {}
        self._questions: dict[int, Callable[[Response], None]] = {}
        self._next_question = OUTSIDE_ID
        self._by_key: dict[ReplicaKey, SimulatedHost] = {}

    def add_host(self, id: int, *, founder: bool = False, witness: bool = False) -> SimulatedHost:
        """A new machine with an empty disk: the next incarnation of a node id."""
        machine = Machine(Random(self.random.randrange(1 << 60)), Clock(self.scheduler))
        host = self.add_replica(machine, id, founder, witness)
        if self.second is not None:
            self.second.add_replica(machine, id, founder, witness)
        machine.start()
        return host

    def add_static_host(self, id: int, witness: bool) -> SimulatedHost:
        """A machine of a static quorum, not started: every later one takes the address of the first."""
        earlier = self.hosts.get(_static_address(id))
        machine = Machine(Random(self.random.randrange(1 << 60)), Clock(self.scheduler))
        host = self.add_replica(machine, id, founder=False, witness=witness, in_place=True)
        # Responses in transit to the earlier host belong to an earlier run.
        host.run = earlier.run if earlier is not None else 0
        return host

    @property
    def partitions(self) -> tuple["Cluster", ...]:
        """This one, and the second one."""
        return (self,) if self.second is None else (self, self.second)

    def add_replica(
        self, machine: Machine, id: int, founder: bool, witness: bool, in_place: bool = False
    ) -> SimulatedHost:
        key, incarnation = self._next_key(id)
        address = _static_address(id) if in_place else f"{id}-{incarnation}"
        # controller.quorum.voters is also the list of servers to ask, so an operator that removes
        # it has to set such servers.
        static = [_static_address(other) for other in self.static_ids] if in_place else []
        known = [each for each in dict.fromkeys((*static, *self.hosts)) if each != address]
        config = RaftConfig(
            endpoints=(Endpoint("CONTROLLER", address, 9093),),
            bootstrap=tuple(Endpoint("CONTROLLER", each, 9093) for each in known),
            cluster_id=CLUSTER_ID if founder else None,
            founder=founder,
            static_voters=tuple(
                Voter(ReplicaKey(each), (Endpoint("CONTROLLER", _static_address(each), 9093),))
                for each in self.static_ids
            ),
            new_cluster_id=CLUSTER_ID,
            initial_voters=self.initial_voters,
            witness=witness,
            silence_share=self.silence_share,
            snapshot_part_bytes=self.random.choice((64, 200, 1000)),
            snapshot_download_idle_ms=200,
            snapshot_download_max_ms=2000,
        )
        seed = self.random.randrange(1 << 60)
        host = SimulatedHost(self, address, key, config, seed, machine)
        self.hosts[address] = self.network.hosts[address] = host
        self._by_key[key] = host
        return host

    def rename(self, host: SimulatedHost) -> None:
        """A replica continues under a new UUID (`--recover`)."""
        host.key, _ = self._next_key(host.key.id)
        self._by_key[host.key] = host

    def _next_key(self, id: int) -> tuple[ReplicaKey, int]:
        incarnation = self._incarnations[id] = self._incarnations.get(id, 0) + 1
        uuid = UUID(int=(self._number << 120) + (self.seed << 40) + (id << 16) + incarnation)
        return ReplicaKey(id, uuid), incarnation

    def host_of(self, key: ReplicaKey) -> SimulatedHost | None:
        return self._by_key.get(key)

    @property
    def leader(self) -> SimulatedHost | None:
        """The leader of the newest epoch, as seen from outside."""
        leaders = [host for host in self.hosts.values() if host.is_leader]
        return max(leaders, key=lambda host: host.replica.epoch, default=None)

    def members(self) -> list[SimulatedHost]:
        """Voters of the newest leader's latest set that can still run."""
        leader = self.leader
        if leader is None:
            return []
        hosts = [self.host_of(key) for key in leader.replica.voters.latest.voters.ordered_keys]
        return [host for host in hosts if host is not None and not host.retired]

    def ask(
        self, host: SimulatedHost, request: Request, answered: Callable[[Response], None]
    ) -> None:
        """Send an external request; `answered` is not called if the host dies first."""
        self._next_question += 1
        self._questions[self._next_question] = answered
        host.handle(host.run, RequestReceived(self._next_question, request))

    def answered(self, request_id: int, response: Response) -> bool:
        """Whether this answer was for the outside world."""
        if request_id < OUTSIDE_ID:
            return False
        answered = self._questions.pop(request_id, None)
        if answered is not None:
            self.scheduler.after(0.1, answered, response)
        return True

    def disturbed(self) -> None:
        """Count a fault on the machines of all partitions."""
        for cluster in self.partitions:
            cluster.disturbances += 1

    def role_changed(self, host: SimulatedHost, change: RoleChanged) -> None:
        self.on_role(host, change)

    def voters_changed(self, host: SimulatedHost, change: VotersChanged) -> None:
        self.disturbances += change.committed and host.is_leader
        self.on_voters(host, change)

    def host_halted(self, host: SimulatedHost) -> None:
        """A process ended by itself; the story decides what happens to it."""
        self.on_halted(host)

    on_halted: Callable[[SimulatedHost], None] = staticmethod(lambda host: None)


def _static_address(id: int) -> str:
    return f"{id}-1"
