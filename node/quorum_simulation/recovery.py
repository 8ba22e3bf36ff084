"""The epilogue of some histories: a survivor is recovered while a majority of the old voters runs on out of its reach.

Owns its course. Must not know what is right: that is `invariants/one_quorum_per_cluster_id.py`, and of the invariants of
the history before only those that hold within each of the two quorums are kept.

1. Observers join. The survivor and some of them are cut off; it is stopped, made the sole voter, and started.
2. Links are cut and heal in any way, hosts crash, clients write to whoever leads, newcomers become voters of the
   recovered quorum.
3. All links heal. The recovered quorum has the wanted voters and goes on; each old voter follows it, or has halted
   because it knows more to be committed, or goes on with a majority of the old ones, which docs/how-to/recovery.md tells of,
   or knows no address of a replica that still runs.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import NO_LEADER, AddVoterRequest, Response
from quorum_node.raft.outputs import HaltReason
from quorum_node.raft.search_targets import targets
from quorum_simulation.cluster import CLUSTER_ID, Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.high_watermark_monotonic import HighWatermarkMonotonic
from quorum_simulation.invariants.invariant import Invariant
from quorum_simulation.invariants.one_quorum_per_cluster_id import OneQuorumPerClusterId
from quorum_simulation.invariants.one_vote_per_epoch import OneVotePerEpoch
from quorum_simulation.invariants.silent_after_storage_failure import (
    SilentAfterStorageFailure,
)
from quorum_simulation.membership_plan import MembershipPlan
from quorum_simulation.recovered import make_sole_voter

SHARE = 0.1
LEAST_VOTERS = 3
KIND = "recovery"
"""Beside the kinds of faults: a history that is restricted to some of them ends with a recovery if this is one."""
INVARIANTS: tuple[type[Invariant], ...] = (
    OneQuorumPerClusterId,
    HighWatermarkMonotonic,
    OneVotePerEpoch,
    SilentAfterStorageFailure,
)
LAST_HEALING_MS = 3200.0
"""Links that were cut before have healed by then."""
JOIN_LIMIT_MS = 20_000.0
LEAD_LIMIT_MS = 20_000.0
REST_LIMIT_MS = 60_000.0
WANTED_NEWCOMERS = 2
_LOOK_AGAIN_MS = 100.0
_CHANGE_TIMEOUT_MS = 3000

Wait = Callable[[Callable[[], bool], float, str], None]


class Recovery:
    """`history`: events so far. `wait(done, limit_ms, what)` continues the history, and fails it at the limit."""

    def __init__(self, cluster: Cluster, plan: MembershipPlan, random: Random, wait: Wait) -> None:
        self._cluster = cluster
        self._plan = plan
        self._random = random
        self._wait = wait
        self._scheduler = cluster.scheduler
        self._newcomers: list[SimulatedHost] = []
        self._old: list[SimulatedHost] = []
        self._survivor: SimulatedHost
        self._asking = False
        self._troubled = False
        self.history: list[str] = []

    def play(self) -> None:
        """All of it."""
        self._join()
        self._recover()
        self._trouble()
        self._rest()
        self._count()

    def _join(self) -> None:
        self._plan.ended = True
        self._old = list(self._plan.wanted)
        for host in self._others():  # removed, and not stopped yet
            host.machine.retired = True
            host.machine.crash()
        observers = [self._new_host() for _ in range(self._random.randint(1, 3))]
        calm_at_ms = self._scheduler.now_ms + LAST_HEALING_MS
        self._wait(
            lambda: self._scheduler.now_ms >= calm_at_ms and all(map(_has_joined, observers)),
            JOIN_LIMIT_MS,
            "observers join",
        )

    def _recover(self) -> None:
        random, cluster = self._random, self._cluster
        self._survivor = survivor = random.choice(self._old)
        side = {survivor.address}
        side |= {host.address for host in self._others() if random.random() < 0.5}
        self._cut(side)
        self._note(f"{survivor.address} is lost to {len(self._old) - 1} voters")
        self._pause(random.random() * 4000)
        cluster.on_halted = self._halted
        if random.random() < 0.3:
            for host in self._old:
                self._crash(host, 500 + random.random() * 15_000)
        survivor.machine.crash(power=random.random() < 0.5)
        cluster.recovered = recovered = make_sole_voter(survivor)
        cluster.watch.use([invariant(cluster) for invariant in INVARIANTS])
        self._note(f"{survivor.key} is the sole voter in epoch {recovered.epoch}")
        survivor.machine.start()
        self._wait(lambda: self._leader() is not None, LEAD_LIMIT_MS, "the sole voter leads")

    def _trouble(self) -> None:
        self._troubled = True
        self._grow()
        self._strike()
        self._pause(15_000 + self._random.random() * 25_000)
        self._troubled = False

    def _rest(self) -> None:
        self._cluster.network.blocked.clear()
        for host in self._cluster.hosts.values():
            self._start(host)
        leader = self._leader()
        before = 0 if leader is None else leader.replica.high_watermark
        self._wait(
            lambda: self._is_at_rest(before),
            REST_LIMIT_MS,
            "the recovered quorum has its voters and goes on, and everyone else follows or has halted",
        )
        self._cluster.watch.finished()

    def _is_at_rest(self, before: int) -> bool:
        leader = self._leader()
        if leader is None or leader.replica.high_watermark <= before:
            return False
        voters = leader.replica.voters
        wanted = {self._survivor.key, *(host.key for host in self._newcomers)}
        if set(voters.latest.voters.ordered_keys) != wanted or not voters.latest_is_committed:
            return False
        return len(self._newcomers) >= WANTED_NEWCOMERS and all(
            self._has_ended_well(host, leader)
            for host in self._cluster.hosts.values()
            if not host.retired
        )

    def _has_ended_well(self, host: SimulatedHost, leader: SimulatedHost) -> bool:
        if not host.up:
            return False
        ours, theirs = host.replica, leader.replica
        if ours.epoch == theirs.epoch and ours.high_watermark == theirs.high_watermark:
            return True
        # A leader of old voters with a majority of them sends no requests, and so learns nothing; nor
        # does a voter that knows only addresses of replicas that are gone.
        learns = ours.leader_id == NO_LEADER and self._knows_a_live_address(host)
        return not self._has_seen(host) and not learns

    def _knows_a_live_address(self, host: SimulatedHost) -> bool:
        found = (self._cluster.hosts.get(each.host) for _, each in targets(host.replica))
        return any(each is not None and each.up for each in found)

    def _count(self) -> None:
        counts, leader = self._cluster.recovery_counts, self._leader()
        assert leader is not None
        counts["recoveries"] += 1
        for host in self._old:
            if host is self._survivor:
                continue
            if host.retired:
                counts["old voters that halted"] += 1
            elif host.replica.epoch == leader.replica.epoch:
                counts["old voters that follow"] += 1
            else:
                counts["old voters that run on by themselves"] += 1

    # -- newcomers

    def _grow(self) -> None:
        """Empty disks become voters of the recovered quorum, one after the other."""
        self._scheduler.after(_LOOK_AGAIN_MS, self._grow)
        self._newcomers = [host for host in self._newcomers if not host.retired]
        leader = self._leader()
        if leader is None or self._asking:
            return
        if len(self._newcomers) < WANTED_NEWCOMERS:
            self._newcomers.append(self._new_newcomer())
        voters = leader.replica.voters.latest.voters
        for newcomer in self._newcomers:
            if newcomer.key not in voters and _has_caught_up(leader, newcomer):
                self._add(leader, newcomer)
                return

    def _add(self, leader: SimulatedHost, newcomer: SimulatedHost) -> None:
        self._asking = True
        self._scheduler.after(_CHANGE_TIMEOUT_MS + 200, self._answered)
        request = AddVoterRequest(
            CLUSTER_ID, newcomer.key, newcomer.config.endpoints, _CHANGE_TIMEOUT_MS
        )
        self._cluster.ask(leader, request, self._answered)

    def _answered(self, response: Response | None = None) -> None:
        self._asking = False

    def _new_newcomer(self) -> SimulatedHost:
        """An empty disk, told of the recovered quorum alone: who meets old voters first can't but believe them."""
        host = self._new_host()
        known = (self._survivor, *self._newcomers)
        host.machine.crash()
        host.config = replace(
            host.config, bootstrap=tuple(each.config.endpoints[0] for each in known)
        )
        host.machine.start()
        return host

    def _new_host(self) -> SimulatedHost:
        return self._cluster.add_host(1 + max(host.key.id for host in self._cluster.hosts.values()))

    # -- trouble

    def _strike(self) -> None:
        if not self._troubled:
            return
        self._scheduler.after(100 + self._random.random() * 1500, self._strike)
        self._random.choice((self._partition, self._heal, self._crash_one, self._old_against_new))()

    def _partition(self) -> None:
        addresses = list(self._cluster.hosts)
        self._cut({address for address in addresses if self._random.random() < 0.5})

    def _old_against_new(self) -> None:
        """The voters of both quorums are cut off from each other; the others are on any side."""
        old = {host.address for host in self._old} - {self._survivor.address}
        side = {host.address for host in (self._survivor, *self._newcomers)}
        others = set(self._cluster.hosts) - old - side
        self._cut(side | {address for address in sorted(others) if self._random.random() < 0.5})

    def _heal(self) -> None:
        self._note("links heal")
        self._cluster.network.blocked.clear()

    def _crash_one(self) -> None:
        up = [host for host in self._cluster.hosts.values() if host.up]
        if not up:
            return
        self._crash(self._random.choice(up), self._random.random() * 3000)

    def _crash(self, host: SimulatedHost, down_ms: float) -> None:
        self._note(f"{host.address} crashes")
        if host.up:
            host.machine.crash(power=self._random.random() < 0.5)
        self._scheduler.after(down_ms, self._start, host)

    def _start(self, host: SimulatedHost) -> None:
        if not host.up and not host.retired and host is not self._being_recovered():
            host.machine.start()

    def _being_recovered(self) -> SimulatedHost | None:
        return self._survivor if self._cluster.recovered is None else None

    def _halted(self, host: SimulatedHost) -> None:
        """Who has to cut what it knows to be committed needs an empty disk."""
        self._note(f"{host.address} halts: {host.halted}")
        if host.halted is HaltReason.CORRUPTION:
            host.machine.retired = True
        elif host.halted is HaltReason.SHUTDOWN:
            self._scheduler.after(500, self._start, host)
        else:
            raise AssertionError(f"{host.address} halted: {host.halted}")

    def _cut(self, side: set[str]) -> None:
        """Nothing passes between one side and the other; all else passes."""
        others = [address for address in self._cluster.hosts if address not in side]
        blocked = self._cluster.network.blocked
        blocked.clear()
        blocked |= {pair for a in side for b in others for pair in ((a, b), (b, a))}
        self._note(f"cut off: {' '.join(sorted(side))}")

    # -- what there is

    def _leader(self) -> SimulatedHost | None:
        """Of the recovered quorum."""
        hosts = self._cluster.hosts.values()
        leaders = [host for host in hosts if host.is_leader and self._has_seen(host)]
        return max(leaders, key=lambda host: host.replica.epoch, default=None)

    def _has_seen(self, host: SimulatedHost) -> bool:
        recovered = self._cluster.recovered
        return recovered is not None and recovered.is_seen_by(host)

    def _others(self) -> list[SimulatedHost]:
        """Neither old voters nor retired."""
        hosts = self._cluster.hosts.values()
        return [host for host in hosts if host not in self._old and not host.retired]

    def _pause(self, pause_ms: float) -> None:
        until_ms = self._scheduler.now_ms + pause_ms
        self._wait(lambda: self._scheduler.now_ms >= until_ms, pause_ms + 1000, "a pause")

    def _note(self, what: str) -> None:
        self.history.append(f"{self._scheduler.now_ms:9.1f} ms  recovery: {what}")


def _has_joined(observer: SimulatedHost) -> bool:
    return observer.up and observer.replica.high_watermark > 0


def _has_caught_up(leader: SimulatedHost, newcomer: SimulatedHost) -> bool:
    role = leader.replica.role
    progress = role.progress.get(newcomer.key) if isinstance(role, Leader) else None
    return progress is not None and leader.replica.log_end - progress.end_offset < 20
