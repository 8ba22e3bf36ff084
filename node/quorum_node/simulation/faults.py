"""Faults: what goes wrong, when, and for how long.

Owns the kinds of faults, their mending, and the count of what hit in which phase. Must not know the
membership plan beyond telling it of dead disks. Faults never take what no quorum survives: at most a
minority of disks is lost for good in any voter set that may be in force.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from uuid import UUID

from quorum_node.raft.leadership import ChangePhase, Leader
from quorum_node.raft.messages import ResignRequest
from quorum_node.raft.outputs import HaltReason, RoleChanged, VotersChanged
from quorum_node.raft.quorum import majority
from quorum_node.raft.voters import VoterSet
from quorum_node.records.identity import ReplicaKey
from quorum_node.simulation.alterations import survives_the_way
from quorum_node.simulation.cluster import Cluster
from quorum_node.simulation.host import SimulatedHost
from quorum_node.simulation.membership_plan import MembershipPlan
from quorum_node.simulation.network import Weather

PHASES = ("steady", "electing", "catching up", "changing", "downloading")
ONLY_WHILE = {"crash in download": ("downloading",), "damaged download": ("downloading",)}
"""Faults that need a phase: there is nothing to hit in the others."""
LONGEST_WAIT_MS = 800.0


class Faults:
    """Picks a kind and a phase, waits for the phase, strikes, mends, and goes on until told to stop."""

    def __init__(
        self, cluster: Cluster, plan: MembershipPlan, random: Random, only: frozenset[str]
    ) -> None:
        self._cluster = cluster
        self._plan = plan
        self._random = random
        self.struck: Counter[tuple[str, str]] = Counter()
        self.history: list[str] = []
        self.count = 0
        self._active = False
        self._armed: tuple[str, str] | None = None
        self._strike_number = 0
        self._kinds: dict[str, Callable[[], bool]] = {
            "crash": self._crash,
            "crash leader": self._crash_leader,
            "freeze": self._freeze,
            "partition": self._partition,
            "isolate leader": self._isolate_leader,
            "leader with few": self._leader_with_few,
            "one-way cut": self._one_way_cut,
            "drop": lambda: self._weather(Weather(drop=0.15)),
            "delay": lambda: self._weather(Weather(delay_ms=60)),
            "duplicate": lambda: self._weather(Weather(duplicate=0.3)),
            "reorder": lambda: self._weather(Weather(reorder=0.5)),
            "close connections": self._close_connections,
            "slow disk": self._slow_disk,
            "disk full": self._disk_full,
            "EIO": self._disk_breaks,
            "lost disk": self._disk_lost,
            "crash in download": self._crash_in_download,
            "damaged download": self._damage_download,
            "graceful stop": self._graceful_stop,
            "resign": self._resign,
        }
        if only:
            unknown = sorted(only - self._kinds.keys())
            if unknown:
                raise ValueError(f"no kinds of faults: {', '.join(unknown)}")
            self._kinds = {kind: self._kinds[kind] for kind in self._kinds if kind in only}

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self._kinds)

    def begin(self) -> None:
        """Start striking."""
        self._active = True
        cluster = self._cluster
        cluster.on_role, cluster.on_voters = self._role_changed, self._voters_changed
        cluster.on_halted, cluster.on_download = self._halted, self._downloads
        self._arm()

    def end(self) -> None:
        """No more faults; heal everything that can be healed and start everyone who can run."""
        self._active = False
        cluster = self._cluster
        cluster.network.blocked.clear()
        self._set_weather(Weather())
        for host in cluster.hosts.values():
            machine = host.machine
            machine.disk_full, machine.sync_delay_ms, machine.frozen_until_ms = False, 0.0, 0.0
            self._restart(host)

    def phase(self, wanted: str) -> str:
        """What the quorum is busy with; that somebody downloads counts only if that is wanted."""
        if wanted == "downloading" and any(host.is_downloading for host in self._up_hosts()):
            return wanted
        leader = self._cluster.leader
        if leader is None or not self._leads(leader):
            return "electing"
        role = leader.replica.role
        assert isinstance(role, Leader)
        change = role.change
        if not leader.replica.voters.latest_is_committed:
            return "changing"
        if change is not None and change.phase is ChangePhase.COMMITTING:
            return "changing"
        if change is not None or self._plan.newcomer_waits():
            return "catching up"
        return "steady"

    def _leads(self, host: SimulatedHost) -> bool:
        role = host.replica.role
        return isinstance(role, Leader) and role.own_epoch_committed

    def _arm(self) -> None:
        if not self._active:
            return
        kind = self._random.choice(self.kinds)
        phase = self._random.choice(ONLY_WHILE.get(kind, PHASES))
        self._armed = (kind, phase)
        self._strike_number += 1
        number = self._strike_number
        scheduler = self._cluster.scheduler
        if phase == "steady":
            scheduler.after(50 + self._random.random() * 300, self._strike, number)
        else:
            scheduler.after(LONGEST_WAIT_MS, self._strike, number)
            scheduler.after(self._random.random() * 100, self._look_for_phase, number)

    def _look_for_phase(self, number: int) -> None:
        """Catching up lasts; electing and changing are also caught by the hooks below."""
        if number != self._strike_number or self._armed is None or not self._active:
            return
        if self.phase(self._armed[1]) == self._armed[1]:
            self._strike(number, last=False)
        self._cluster.scheduler.after(10, self._look_for_phase, number)

    def _role_changed(self, host: SimulatedHost, change: RoleChanged) -> None:
        if self._armed is not None and self._armed[1] == "electing":
            self._strike_soon()

    def _voters_changed(self, host: SimulatedHost, change: VotersChanged) -> None:
        if self._armed is not None and self._armed[1] == "changing" and not change.committed:
            self._strike_soon()

    def _downloads(self, host: SimulatedHost) -> None:
        if self._armed is not None and self._armed[1] == "downloading":
            self._strike_soon()

    def _strike_soon(self) -> None:
        wanted = (self._armed or ("", ""))[1]
        if self._active and self.phase(wanted) == wanted:
            number = self._strike_number
            self._cluster.scheduler.after(self._random.random(), self._strike, number, False)

    def _strike(self, number: int, last: bool = True) -> None:
        """One that finds nothing to hit tries again until its time is over: a leader may come yet."""
        if number != self._strike_number or self._armed is None or not self._active:
            return
        kind, wanted = self._armed
        phase = self.phase(wanted)
        now_ms = self._cluster.scheduler.now_ms
        struck = self._kinds[kind]()
        if not struck and not last:
            return
        self._armed = None
        if struck:
            self.struck[(kind, phase)] += 1
            self.count += 1
            self.history.append(f"{now_ms:9.1f} ms  {kind} while {phase}")
        # The longer it takes, the more room is left to get somewhere.
        patience = 1 + self.count / 15
        delay_ms = (50 + self._random.random() * 400) * patience
        self._cluster.scheduler.after(delay_ms, self._arm)

    # -- the kinds; each returns whether it could strike

    def _later(
        self, least_ms: float, most_ms: float, mend: Callable[..., None], *args: object
    ) -> None:
        delay_ms = least_ms + self._random.random() * (most_ms - least_ms)
        self._cluster.scheduler.after(delay_ms, mend, *args)

    def _up_hosts(self) -> list[SimulatedHost]:
        return [host for host in self._cluster.hosts.values() if host.up]

    def _one_of(self, hosts: list[SimulatedHost]) -> SimulatedHost:
        """Any of them, but gladly one that is in the middle of a download."""
        busy = [host for host in hosts if host.is_downloading]
        return self._random.choice(busy if busy and self._random.random() < 0.5 else hosts)

    def _crash(self) -> bool:
        hosts = self._up_hosts()
        if not hosts:
            return False
        self._kill(self._one_of(hosts))
        return True

    def _some_leader(self) -> SimulatedHost | None:
        """The leader, of either partition if there are two; the machine is what faults strike."""
        leaders = [each.leader for each in self._cluster.partitions]
        led = [leader for leader in leaders if leader is not None]
        if not led:
            return None
        chosen = led[0] if len(led) == 1 else self._random.choice(led)
        return chosen.machine.first

    def _crash_leader(self) -> bool:
        leader = self._some_leader()
        if leader is not None:
            self._kill(leader)
        return leader is not None

    def _kill(self, host: SimulatedHost) -> None:
        host.machine.crash()
        self._later(20, 1500, self._restart, host)

    def _restart(self, host: SimulatedHost) -> None:
        if not host.up and not host.retired and not host.disk.broken and not host.disk.full:
            host.machine.start()

    def _freeze(self) -> bool:
        hosts = self._up_hosts()
        if not hosts:
            return False
        host = self._some_leader() if self._random.random() < 0.4 else None
        host = host or self._one_of(hosts)
        # Long enough, now and then, for the others to elect a leader behind a frozen one's back.
        longest_ms = 2500 if self._random.random() < 0.6 else 6000
        now_ms = self._cluster.scheduler.now_ms
        host.machine.frozen_until_ms = now_ms + 100 + self._random.random() * longest_ms
        return True

    def _partition(self) -> bool:
        addresses = list(self._cluster.hosts)
        left = {address for address in addresses if self._random.random() < 0.5}
        return self._cut({(a, b) for a in left for b in addresses if b not in left}, both_ways=True)

    def _isolate_leader(self) -> bool:
        leader = self._some_leader()
        if leader is None:
            return False
        others = [a for a in self._cluster.hosts if a != leader.address]
        struck = self._cut({(leader.address, other) for other in others}, both_ways=True)
        if self._random.random() < 0.5:
            # Resets get through: the others know at once, while the old leader believes in itself.
            self._reset_connections(leader.address)
        return struck

    def _leader_with_few(self) -> bool:
        """Replicas that go on following a leader without a majority: observers, and too few voters."""
        leader = self._cluster.leader
        if leader is None:
            return False
        voters = leader.replica.voters.latest.voters
        room = majority(len(voters)) - 2  # besides the leader
        side = {leader.address}
        for host in self._random.sample(self._up_hosts(), len(self._up_hosts())):
            is_voter = host.key in voters
            if host is not leader and (room > 0 or not is_voter):
                side.add(host.address)
                room -= is_voter
        pairs = {(a, b) for a in side for b in self._cluster.hosts if b not in side}
        if self._random.random() < 0.7:
            # The others know at once, while those on this side believe in their leader.
            self._cluster.network.close_between({(b, a) for a, b in pairs})
        return self._cut(pairs, both_ways=True)

    def _one_way_cut(self) -> bool:
        addresses = list(self._cluster.hosts)
        if len(addresses) < 2:
            return False
        source = self._random.choice(addresses)
        return self._cut({(source, other) for other in addresses if other != source})

    def _cut(self, pairs: set[tuple[str, str]], both_ways: bool = False) -> bool:
        if both_ways:
            pairs = pairs | {(b, a) for a, b in pairs}
        blocked = self._cluster.network.blocked
        fresh = pairs - blocked
        blocked |= fresh
        self._later(100, 3000, blocked.difference_update, fresh)
        return bool(fresh)

    def _weather(self, weather: Weather) -> bool:
        self._set_weather(weather)
        self._later(200, 2000, self._clear_weather, weather)
        return True

    def _clear_weather(self, weather: Weather) -> None:
        if self._cluster.network.weather is weather:
            self._set_weather(Weather())

    def _set_weather(self, weather: Weather) -> None:
        for partition in self._cluster.partitions:
            partition.network.weather = weather

    def _reset_connections(self, address: str) -> None:
        for partition in self._cluster.partitions:
            partition.network.close_connections(address)

    def _close_connections(self) -> bool:
        hosts = self._up_hosts()
        if hosts:
            self._reset_connections(self._one_of(hosts).address)
        return bool(hosts)

    def _slow_disk(self) -> bool:
        hosts = self._up_hosts()
        if not hosts:
            return False
        machine = self._one_of(hosts).machine
        machine.sync_delay_ms = 5 + self._random.random() * 80
        self._later(200, 2000, setattr, machine, "sync_delay_ms", 0.0)
        return True

    def _disk_full(self) -> bool:
        hosts = self._up_hosts()
        if not hosts:
            return False
        host = self._one_of(hosts)
        host.machine.disk_full = True
        self._later(200, 1500, self._mend_full_disk, host)
        return True

    def _mend_full_disk(self, host: SimulatedHost) -> None:
        host.machine.disk_full = False
        self._restart(host)

    def _crash_in_download(self) -> bool:
        """Restarted at once: a download goes on where it stopped while its snapshot is still wanted."""
        busy = [host for host in self._up_hosts() if host.is_downloading]
        if not busy:
            return False
        host = self._random.choice(busy)
        host.machine.crash()
        self._later(2, 30, self._restart, host)
        return True

    def _damage_download(self) -> bool:
        """Bits of what was downloaded so far turn over, on the way or on the disk."""
        partials = [
            partial
            for host in self._up_hosts()
            for partial in host.disk.partials.values()
            if partial
        ]
        if not partials:
            return False
        damaged = self._random.choice(partials)
        damaged[self._random.randrange(len(damaged))] ^= 1 << self._random.randrange(8)
        return True

    def _disk_breaks(self) -> bool:
        host = self._expendable()
        if host is None:
            return False
        host.machine.disk_broken = True
        # It may be idle: the failure is seen at the latest when its operator looks.
        self._later(200, 600, self._bury, host)
        return True

    def _disk_lost(self) -> bool:
        host = self._expendable()
        if host is None:
            return False
        host.machine.disk_broken = True
        self._bury(host)
        return True

    def _bury(self, host: SimulatedHost) -> None:
        if host.retired:
            return
        host.machine.retired = True
        host.machine.crash()
        self._plan.replace_dead(host)

    def _halted(self, host: SimulatedHost) -> None:
        if host.halted is HaltReason.STORAGE_FAILED:
            self._bury(host)
        elif host.halted is HaltReason.DISK_FULL and host.disk.full:
            return  # started again when its disk is mended
        elif host.halted in (HaltReason.SHUTDOWN, HaltReason.DISK_FULL):
            self._later(20, 800, self._restart, host)
        else:
            raise AssertionError(f"{host.address} halted: {host.halted}")

    def _graceful_stop(self) -> bool:
        hosts = self._up_hosts()
        if not hosts:
            return False
        host = self._some_leader() if self._random.random() < 0.6 else None
        host = host or self._one_of(hosts)
        host.machine.request_shutdown()
        return True

    def _resign(self) -> bool:
        led = [each for each in self._cluster.partitions if each.leader is not None]
        if not led:
            return False
        cluster = led[0] if len(led) == 1 else self._random.choice(led)
        assert cluster.leader is not None
        cluster.ask(cluster.leader, ResignRequest(), lambda response: None)
        return True

    def _expendable(self) -> SimulatedHost | None:
        """A host whose disk may die for good without taking the quorum with it."""
        hosts = [host for host in self._up_hosts() if self._survives_without(host)]
        if not hosts or any(h.disk.broken and not h.retired for h in self._cluster.hosts.values()):
            return None
        leader = self._some_leader()
        if leader in hosts and self._random.random() < 0.4:
            return leader
        return self._random.choice(hosts)

    def _survives_without(self, gone: SimulatedHost) -> bool:
        """A majority of disks is left in every voter set that anyone may act on, now or soon.

        Soon: the plan may be taking a member away or adding this one, and not know of its death.
        """
        if gone not in self._plan.wanted:
            return False
        if self._cluster.with_witness and not gone.config.witness:
            return False  # with it the only copy might go of which a leader can be made
        return all(self._survives_in(each, gone) for each in self._cluster.partitions)

    def _survives_in(self, cluster: Cluster, gone: SimulatedHost) -> bool:
        gone = cluster.hosts[gone.address]
        wanted = {cluster.hosts[host.address].key for host in self._plan.wanted}
        for host in cluster.hosts.values():
            if not host.has_run or (host.retired and host.disk.broken):
                continue
            committed = host.replica.voters.committed.offset
            for entry in host.replica.voters.entries:
                if entry.offset < committed:
                    continue
                if not _set_survives(cluster, entry.voters, gone, wanted):
                    return False
                targets = [entry.record.target_voters]
                if self._plan.by_target or cluster is not self._cluster:
                    successor = ReplicaKey(gone.key.id, UUID(int=0))
                    targets += [tuple(wanted), (*(wanted - {gone.key}), successor)]
                if not _targets_survive(cluster, entry.voters, gone, targets):
                    return False
        return True


def _set_survives(
    cluster: Cluster, voters: VoterSet, gone: SimulatedHost, wanted: set[ReplicaKey]
) -> bool:
    keys = voters.ordered_keys
    if not keys:
        return True
    if gone.key not in keys:
        keys = (*keys, gone.key)  # wanted: it may be on its way in
    leaving = [key for key in keys if key not in wanted and key != gone.key]
    for left in (keys, *(tuple(k for k in keys if k != key) for key in leaving)):
        hosts = [cluster.host_of(key) for key in left if key != gone.key]
        alive = sum(each is not None and not each.disk.broken for each in hosts)
        if alive < majority(len(left)):
            return False
    return True


def _targets_survive(
    cluster: Cluster,
    voters: VoterSet,
    gone: SimulatedHost,
    targets: list[tuple[ReplicaKey, ...] | None],
) -> bool:
    """Also on the way to the target voters, which a leader goes by itself."""
    dead = {host.key for host in cluster.hosts.values() if host.disk.broken} | {gone.key}
    return all(
        target is None or survives_the_way(voters.ordered_keys, target, dead) for target in targets
    )
