"""How a static quorum comes to be, in trouble from its first moment on.

Owns the formation of a history that begins with `controller.quorum.voters`: late starts, crashes, cut-off
members and emptied disks before, while and after the first leader writes who the voters are. Must not know
what comes afterwards. An emptied disk comes back at the same address, under the same id, with another
UUID: nothing that it was asked for by its id alone may it have promised before.
"""

from random import Random

from quorum_node.raft.outputs import VotersChanged
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.membership_plan import MembershipPlan

SHARE = 0.25
KEPT_SHARE = 0.4
"""Of these, the share in which the configuration stays as it is: no new ids, only new UUIDs."""
LATEST_START_MS = 1500.0
STRIKES = 6
AIMED_SHARE = 0.6
SILENCE_MS = 60.0


class StaticFormation:
    """`begin`, and once the quorum has formed `end`. `history`: what struck."""

    def __init__(self, cluster: Cluster, plan: MembershipPlan, random: Random) -> None:
        self._cluster = cluster
        self._plan = plan
        self._random = random
        self._active = False
        self._size = 0
        self._emptied = 0
        self.kept = random.random() < KEPT_SHARE
        self.history: list[str] = []

    def begin(self, size: int) -> None:
        """All voters, started one after the other."""
        self._active = True
        # With a single static voter nothing prevents a second machine with that id from forming a
        # quorum of its own.
        self.kept = self.kept and size > 1
        self._size = size
        for host in self._plan.found_static(size):
            delay_ms = self._random.random() * LATEST_START_MS
            self._cluster.scheduler.after(delay_ms, self._start, host)
        if self._random.random() < AIMED_SHARE:
            self._cluster.on_voters = self._voters_changed
        for _ in range(self._random.randrange(STRIKES + 1)):
            at_ms = 200 + self._random.random() * 5000
            self._cluster.scheduler.after(at_ms, self._strike)

    def end(self) -> None:
        """The quorum has formed: heal, and mostly roll the configuration away, as KIP-595 says one may."""
        self._active = False
        cluster = self._cluster
        cluster.on_voters = lambda host, change: None
        cluster.network.blocked.clear()
        for host in cluster.hosts.values():
            self._start(host)
            if not self.kept:
                host.forget_static_voters()
        cluster.static_ids = cluster.static_ids if self.kept else ()
        self._plan.ids_are_fixed = self.kept

    def _start(self, host: SimulatedHost) -> None:
        if not host.up and not host.retired and not host.disk.broken:
            host.machine.start()

    def _strike(self) -> None:
        hosts = [host for host in self._cluster.hosts.values() if host.up]
        if not self._active or not hosts:
            return
        kind = self._random.choice((self._crash, self._cut_off, self._empty, self._empty))
        leader = self._cluster.leader
        host = leader if leader is not None and self._random.random() < 0.4 else None
        kind(host or self._random.choice(hosts))

    def _voters_changed(self, leader: SimulatedHost, change: VotersChanged) -> None:
        """The first voters are written: some never hear of it, some that did are emptied or cut off.

        Those who are left then know their peers by id alone, and must not pass for a majority.
        """
        if not leader.is_leader or not self._active or self._losable() == 0:
            return
        self._cluster.on_voters = lambda host, change: None
        others = [host for host in self._cluster.hosts.values() if host.up and host is not leader]
        self._random.shuffle(others)
        late = others[: (len(others) + 1) // 2]
        informed = [leader, *others[len(late) :]]
        after = self._cluster.scheduler.after
        for host in late:
            self._cut_off(host, SILENCE_MS)
        self._random.shuffle(informed)
        gone = informed[: self._losable()]
        for host in gone:
            after(SILENCE_MS * 0.9, self._empty, host)
        for host in informed[len(gone) :]:
            after(SILENCE_MS * 0.9, self._cut_off, host)

    def _losable(self) -> int:
        """How many disks more may go. A late strike may meet a quorum that is being made smaller by then."""
        written = [
            len(entry.voters)
            for host in self._cluster.hosts.values()
            if host.has_run
            for entry in host.replica.voters.entries
            if entry.offset >= 0
        ]
        return (min(self._size, len(self._plan.wanted), *written) - 1) // 2 - self._emptied

    def _note(self, what: str, host: SimulatedHost) -> None:
        now_ms = self._cluster.scheduler.now_ms
        self.history.append(f"{now_ms:9.1f} ms  {what} {host.address} during formation")
        self._cluster.disturbed()

    def _crash(self, host: SimulatedHost) -> None:
        self._note("crash", host)
        host.machine.crash()
        self._cluster.scheduler.after(20 + self._random.random() * 1000, self._start, host)

    def _cut_off(self, host: SimulatedHost, for_ms: float | None = None) -> None:
        self._note("cut off", host)
        others = [address for address in self._cluster.hosts if address != host.address]
        pairs = {(host.address, other) for other in others}
        pairs |= {(other, host.address) for other in others}
        if for_ms is None and self._random.random() < 0.2:
            pairs = {pair for pair in sorted(pairs) if self._random.random() < 0.5}
        blocked = self._cluster.network.blocked
        blocked |= pairs
        delay_ms = for_ms or 50 + self._random.random() * 4000
        self._cluster.scheduler.after(delay_ms, blocked.difference_update, pairs)

    def _empty(self, host: SimulatedHost) -> None:
        """The disk is gone, the configuration is not."""
        if self._losable() <= 0 or host not in self._plan.wanted:
            return
        if self._cluster.with_witness and not host.config.witness:
            return  # the voters that may lead could lack the witness's records
        self._emptied += 1
        self._note("empty the disk of", host)
        host.machine.retired = True
        host.machine.break_disk()
        host.machine.crash()
        emptied = self._plan.replace_in_place(host)
        delay_ms = self._random.random() * 800
        self._cluster.scheduler.after(delay_ms, self._start, emptied)
