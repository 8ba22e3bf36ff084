"""Changes the members from outside: grows and shrinks the quorum, replaces members whose disk died.

Owns which members are wanted and the next step towards them. The step is computed from the leader's description,
never from remembered intent (as in the real operator). Must not know faults.
"""

from collections.abc import Callable
from random import Random

from quorum_node.quorum_arithmetic import majority
from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    Response,
    VoterChangeResponse,
)
from quorum_node.raft.voters import VotersEntry, VoterSet
from quorum_node.records.identity import ReplicaKey
from quorum_simulation.alterations import Alterations
from quorum_simulation.cluster import CLUSTER_ID, Cluster
from quorum_simulation.host import SimulatedHost

REQUEST_TIMEOUT_MS = 3000
LOOK_AGAIN_MS = 40.0
PAUSE_MS = 1500.0
RETIRE_AGAIN_MS = 300.0
MAX_MEMBERS = 7
BY_TARGET_SHARE = 0.4


class MembershipPlan:
    """`changes` counts voter changes that were answered with success; `restless`: wants ever new ones."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self.wanted: list[SimulatedHost] = []
        self.changes = 0
        self.restless = False
        self.ids_are_fixed = False
        """A static quorum: no new ids, so members are only replaced by others of the same id."""
        self.ended = False
        """Nothing is changed any more, and nobody is switched off."""
        self._pause_until_ms = 0.0
        self.refusals: dict[RaftError, int] = {}
        self._remove_first = False
        self._asking_until_ms: float | None = None
        self._next_id = 1
        self._asked = 0
        self.others_settled: Callable[[], bool] = lambda: True
        """Whether the other partition of these machines has what is wanted."""
        self.may_switch_off: Callable[[SimulatedHost], bool] = lambda host: True
        """Whether the other partition needs this machine no more."""
        self.alterations = Alterations(cluster, random)
        self.by_target = False
        """Whether the members change by an AlterQuorum now, and not one by one."""
        self._retiring: set[str] = set()

    def found(self, size: int) -> None:
        """A founder, and the others as observers that want to become voters."""
        for number in range(size):
            self.wanted.append(self._new_host(founder=number == 0))
        self._look()

    def found_static(self, size: int) -> list[SimulatedHost]:
        """Static voters, not started: none of them founds, all of them do."""
        self._cluster.static_ids = tuple(range(1, size + 1))
        for number in self._cluster.static_ids:
            witness = self._cluster.with_witness and number == 2
            self.wanted.append(self._cluster.add_static_host(number, witness))
        self._next_id = size + 1
        self._look()
        return list(self.wanted)

    def replace_in_place(self, host: SimulatedHost) -> SimulatedHost:
        """Its disk is gone, and an empty one runs under the same id at the same address."""
        emptied = self._cluster.add_static_host(host.key.id, host.config.witness)
        self.wanted[self.wanted.index(host)] = emptied
        self._remove_first = self._random.random() < 0.5
        return emptied

    def is_done(self) -> bool:
        """The leader's committed voters are the wanted ones."""
        leader = self._cluster.leader
        if leader is None:
            return False
        voters = leader.replica.voters
        wanted = {host.key for host in self.wanted}
        if voters.latest.record.target_voters is not None:
            return False
        return voters.latest_is_committed and set(voters.latest.voters.ordered_keys) == wanted

    def newcomer_waits(self) -> bool:
        """Whether a wanted member is no voter yet."""
        leader = self._cluster.leader
        if leader is None:
            return False
        voters = leader.replica.voters.latest.voters
        return any(host.key not in voters for host in self.wanted)

    def replace_dead(self, host: SimulatedHost) -> None:
        """Its disk is gone for good: another machine with the same id takes its place."""
        if host not in self.wanted:
            return
        self.wanted.remove(host)
        self.wanted.append(self._new_host(host.key.id))
        self._remove_first = self._random.random() < 0.5

    def _new_host(self, id: int | None = None, founder: bool = False) -> SimulatedHost:
        number = self._next_id if id is None else id
        self._next_id = max(self._next_id, number + 1)
        others = [host.config.witness for host in self.wanted]
        witness = self._cluster.with_witness and bool(others) and not any(others)
        return self._cluster.add_host(number, founder=founder, witness=witness)

    def _look(self) -> None:
        if self.ended:
            return
        self._cluster.scheduler.after(LOOK_AGAIN_MS, self._look)
        now_ms = self._cluster.scheduler.now_ms
        if self._asking_until_ms is not None and now_ms < self._asking_until_ms:
            return
        leader = self._cluster.leader
        if leader is None:
            return
        if self.by_target or self.alterations.target_of(leader) is not None:
            self._look_by_target(leader)
            return
        if not leader.replica.voters.latest_is_committed:
            return
        self._asking_until_ms = None
        voters = leader.replica.voters.latest.voters
        newcomers = [host for host in self.wanted if host.key not in voters]
        surplus = [key for key in voters.ordered_keys if not self._is_wanted(key)]
        # Dead voters are removed first, then witnesses, of which there must not be too many. Of two
        # voters with one id the newest comes first: the older one waits for its successor.
        surplus.reverse()
        surplus.sort(key=lambda key: (self._is_alive(key), not self._is_witness(key)))
        if not newcomers and not surplus:
            pause_is_over = now_ms >= self._pause_until_ms and self.others_settled()
            if self.restless and pause_is_over and not self.death_is_news():
                self._pause_until_ms = now_ms + self._random.random() * PAUSE_MS
                self._want_something_else(leader)
            return
        doubled = newcomers and self._is_doubled(leader, newcomers[0])
        # A leader does not detect a death at once: removing another voter meanwhile might be one
        # too many.
        may_shrink = len(voters) > 1 and bool(surplus) and not self.death_is_news()
        leaves_first = self._remove_first and surplus and self._may_go_first(voters, surplus[0])
        if newcomers and not (may_shrink and (leaves_first or doubled)):
            self._add(leader, newcomers[0], bool(surplus))
            self._be_impatient(leader, surplus)
        elif may_shrink and (not newcomers or doubled or self._has_caught_up(leader, newcomers[0])):
            self._remove(leader, surplus[0])

    def _look_by_target(self, leader: SimulatedHost) -> None:
        """The leader does it all; what is wanted may change on the way."""
        self.by_target = True
        if self.is_done():
            self.by_target = False
            self.changes += 1
            for host in list(self._cluster.hosts.values()):
                if host not in self.wanted and not host.retired:
                    self._retire_once(host)
            return
        if self.restless and self._random.random() < 0.01 and self._all_alive(leader):
            self._want_others(leader)
        self.alterations.pursue(leader, self.wanted, restless=self.restless)
        surplus = [
            key
            for key in leader.replica.voters.latest.voters.ordered_keys
            if not self._is_wanted(key)
        ]
        if self._random.random() < 0.05:
            self._be_impatient(leader, surplus)

    def _all_alive(self, leader: SimulatedHost) -> bool:
        """No disk is gone that the leader may still count on: else a new target might be beyond help."""
        voters = leader.replica.voters.latest.voters.ordered_keys
        return all(self._is_alive(key) for key in voters) and not self.death_is_news()

    def _want_others(self, leader: SimulatedHost) -> None:
        """Any number of members goes, and any number comes. The ids of a static quorum stay."""
        if self.ids_are_fixed:
            self._want_another_uuid(leader)
            return
        stay = [host for host in self.wanted if self._random.random() < 0.5]
        if not self._cluster.with_witness or any(not host.config.witness for host in stay):
            self.wanted = stay
        come = self._random.randint(0 if self.wanted else 1, 3)
        for _ in range(min(come, MAX_MEMBERS - len(self.wanted))):
            self.wanted.append(self._new_host())

    def _retire_once(self, host: SimulatedHost) -> None:
        if host.address not in self._retiring:
            self._retiring.add(host.address)
            self._retire_later(host.key)

    def _want_something_else(self, leader: SimulatedHost) -> None:
        """Everything is as wanted: grow or shrink by one, swap one for a new id, or take a target."""
        if self.ids_are_fixed:
            self._want_another_uuid(leader)
            return
        if self._random.random() < BY_TARGET_SHARE:
            self.by_target = True
            self._want_others(leader)
            return
        choices = []
        if len(self.wanted) < MAX_MEMBERS:
            choices += ["grow"] * 2
        if len(self.wanted) > 1:
            choices += ["shrink"] * (2 if len(self.wanted) > 3 else 1) + ["swap"]
        choice = self._random.choice(choices)
        if choice in ("shrink", "swap"):
            gone = leader if self._random.random() < 0.35 else self._random.choice(self.wanted)
            if self._is_last_that_may_lead(gone):
                return
            self.wanted.remove(gone)
        if choice in ("grow", "swap"):
            self.wanted.append(self._new_host())
        self._remove_first = False

    def _want_another_uuid(self, leader: SimulatedHost) -> None:
        """A member makes room for another machine of its id; static quorums change in no other way."""
        gone = leader if self._random.random() < 0.35 else self._random.choice(self.wanted)
        if not self._is_last_that_may_lead(gone):
            self.wanted.remove(gone)
            self.wanted.append(self._new_host(gone.key.id))
            self._remove_first = False

    def _is_last_that_may_lead(self, gone: SimulatedHost) -> bool:
        may_lead = [host for host in self.wanted if not host.config.witness]
        return may_lead == [gone] and len(self.wanted) > 1

    def _be_impatient(self, leader: SimulatedHost, surplus: list[ReplicaKey]) -> None:
        """Occasionally request the next change while one is in progress: it must be refused."""
        if surplus and self._random.random() < 0.4:
            delay_ms = self._random.random() * 6
            self._cluster.scheduler.after(delay_ms, self._ask_besides, leader, surplus[0])

    def _ask_besides(self, leader: SimulatedHost, key: ReplicaKey) -> None:
        request = RemoveVoterRequest(CLUSTER_ID, key, REQUEST_TIMEOUT_MS)
        self._cluster.ask(leader, request, lambda response: None)

    def death_is_news(self) -> bool:
        """Whether a member's disk is lost without anyone having noticed: a change that begins now might not be
        possible to complete.

        The same applies to bit rot: the replica may find it when few voters are left.
        """
        return any(host.machine.counts_as_lost for host in self.wanted)

    def _is_wanted(self, key: ReplicaKey) -> bool:
        return any(host.key == key for host in self.wanted)

    def _is_doubled(self, leader: SimulatedHost, newcomer: SimulatedHost) -> bool:
        keys = leader.replica.voters.latest.voters.ordered_keys
        return sum(key.id == newcomer.key.id for key in keys) > 1

    def _is_alive(self, key: ReplicaKey) -> bool:
        host = self._cluster.host_of(key)
        return host is not None and not host.retired

    def _may_go_first(self, voters: VoterSet, key: ReplicaKey) -> bool:
        """A leader refuses what would leave a majority of witnesses."""
        remaining = [each for each in voters.ordered_keys if each != key]
        return sum(map(self._is_witness, remaining)) < majority(len(remaining))

    def _is_witness(self, key: ReplicaKey) -> bool:
        host = self._cluster.host_of(key)
        return host is not None and host.config.witness

    def _has_caught_up(self, leader: SimulatedHost, newcomer: SimulatedHost) -> bool:
        role = leader.replica.role
        progress = role.progress.get(newcomer.key) if isinstance(role, Leader) else None
        return progress is not None and leader.replica.log_end - progress.end_offset < 20

    def _add(self, leader: SimulatedHost, newcomer: SimulatedHost, replaces: bool) -> None:
        request = AddVoterRequest(
            cluster_id=CLUSTER_ID,
            voter=newcomer.key,
            endpoints=newcomer.config.endpoints,
            timeout_ms=REQUEST_TIMEOUT_MS,
            expected=leader.replica.committed_position(),
            count_newcomer=replaces,
        )
        self._ask(leader, request, None)

    def _remove(self, leader: SimulatedHost, key: ReplicaKey) -> None:
        expected = leader.replica.committed_position()
        request = RemoveVoterRequest(CLUSTER_ID, key, REQUEST_TIMEOUT_MS, expected)
        self._ask(leader, request, key)

    def _ask(
        self,
        leader: SimulatedHost,
        request: AddVoterRequest | RemoveVoterRequest,
        removed: ReplicaKey | None,
    ) -> None:
        self._asked += 1
        asked = self._asked
        now_ms = self._cluster.scheduler.now_ms
        self._asking_until_ms = now_ms + REQUEST_TIMEOUT_MS + 200

        def answered(response: Response) -> None:
            assert isinstance(response, VoterChangeResponse)
            if asked == self._asked:
                self._asking_until_ms = None
            if response.error is RaftError.NONE:
                self.changes += 1
                if removed is not None:
                    self._retire_later(removed)
            else:
                self.refusals[response.error] = self.refusals.get(response.error, 0) + 1

        self._cluster.ask(leader, request, answered)

    def _retire_later(self, key: ReplicaKey) -> None:
        """A removed member continues for a while, as a disturbance, and is then switched off."""
        host = self._cluster.host_of(key)
        if host is not None:
            delay_ms = self._random.random() * 4000
            self._cluster.scheduler.after(delay_ms, self._retire, host)

    def is_last_known(self, host: SimulatedHost, leader: SimulatedHost) -> bool:
        """Whether a member that was cut off for long would be left with nobody to ask.

        It stands for the Service that real bootstrap servers are reached by: there is somebody behind it always.
        """
        left = {each.address for each in self.wanted if each is not host}
        return any(
            not (_known_addresses(each) & left - {each.address})
            for each in self.wanted
            if each is not leader and each.was_up
        )

    def _retire(self, host: SimulatedHost) -> None:
        leader = self._cluster.leader
        if host in self.wanted or leader is None or self.ended:
            return
        if host.key in leader.replica.voters.latest.voters:
            return
        if self.may_switch_off(host) and not self.is_last_known(host, leader):
            host.machine.retired = True
            host.machine.crash()
        else:
            self._cluster.scheduler.after(RETIRE_AGAIN_MS, self._retire, host)


def _known_addresses(host: SimulatedHost) -> set[str]:
    """Where it may look for the leader: of its newest voters record, also if a power cut takes the last one, and configured."""
    entries = host.replica.voters.entries
    durable = [entry for entry in entries if entry.offset < host.replica.durable_end]
    newest = [_addresses(entry) for entry in (*durable[-1:], entries[-1])]
    configured = {endpoint.host for endpoint in host.config.bootstrap}
    return set.intersection(*newest) | configured


def _addresses(entry: VotersEntry) -> set[str]:
    return {endpoint.host for voter in entry.voters for endpoint in voter.endpoints}
