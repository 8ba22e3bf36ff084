"""One simulated history, from formation to rest.

Owns the course of a run and what a run must contain. Must not know how anything works inside.

1. Formation: a founder, observers join and become voters; or a static quorum (`static_formation.py`). 2. Trouble: clients write and read, members
change, faults strike, until there were enough of each. 3. Calm: faults stop; within a bound there must
be a leader, the wanted voters, and all replicas caught up. 4. The final state is compared with the acknowledged writes.
5. In some histories a survivor is recovered while the others run on out of reach (`recovery.py`).
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from quorum_simulation.cluster import Cluster
from quorum_simulation.control.brokers import Brokers
from quorum_simulation.faults.striking import Faults
from quorum_simulation.invariants.every import INVARIANTS
from quorum_simulation.invariants.invariant import Violation
from quorum_simulation.membership_plan import MembershipPlan
from quorum_simulation.recovery import KIND as RECOVERY
from quorum_simulation.recovery import LEAST_VOTERS as RECOVERY_LEAST_VOTERS
from quorum_simulation.recovery import SHARE as RECOVERY_SHARE
from quorum_simulation.recovery import Recovery
from quorum_simulation.second_partition import SHARE as SECOND_PARTITION_SHARE
from quorum_simulation.second_partition import WANTED_WRITES as SECOND_PARTITION_WRITES
from quorum_simulation.second_partition import FollowingPlan
from quorum_simulation.static_formation import SHARE as STATIC_SHARE
from quorum_simulation.static_formation import StaticFormation

CONTROLLER_SHARE = 0.15
SIZES = (1, 2, 3, 3, 3, 3, 4, 5, 5, 7)
WITNESS_SHARE = 0.2
WANTED_WRITES = 300
WANTED_FAULTS = 10
WANTED_CHANGES = 2
FORMATION_LIMIT_MS = 20_000.0
STATIC_FORMATION_LIMIT_MS = 40_000.0
TROUBLE_LIMIT_MS = 240_000.0
CALM_LIMIT_MS = 30_000.0


@dataclass(slots=True)
class Outcome:
    """Contents of a seed's history."""

    seed: int
    initial_voters: int = 0
    writes: int = 0
    reads: Counter[str] = field(default_factory=Counter)
    changes: int = 0
    faults: int = 0
    epochs: int = 0
    events: int = 0
    simulated_ms: float = 0.0
    partitions: int = 1
    static: bool = False
    controlled: bool = False
    """With the controller on top: such a history has no snapshots."""
    second_writes: int = 0
    calm_ms: float = 0.0
    struck: Counter[tuple[str, str]] = field(default_factory=Counter)
    snapshots: Counter[str] = field(default_factory=Counter)
    recovery: Counter[str] = field(default_factory=Counter)
    history: list[str] = field(default_factory=list)
    cpu_s: float = field(default=0.0, compare=False)


class Story:
    """Play with `play()`; raises Violation when anything that must hold does not.

    `only`: kinds of faults to restrict the history to; all of them if empty. "recovery" among them: it ends with one.
    """

    def __init__(self, seed: int, only: frozenset[str] = frozenset()) -> None:
        random = Random(seed)
        self.size = random.choice(SIZES)
        self.cluster = Cluster(seed, initial_voters=self.size)
        starts_static = Random(seed + 8).random() < STATIC_SHARE
        self.cluster.with_witness = Random(seed + 5).random() < WITNESS_SHARE
        self.plan = MembershipPlan(self.cluster, Random(seed + 3))
        self.faults = Faults(self.cluster, self.plan, Random(seed + 4), only - {RECOVERY})
        self.outcome = Outcome(seed, self.size)
        self.second_plan: FollowingPlan | None = None
        self.brokers: Brokers | None = None
        self.static: StaticFormation | None = None
        if starts_static:
            self.static = StaticFormation(self.cluster, self.plan, Random(seed + 9))
        elif Random(seed + 6).random() < SECOND_PARTITION_SHARE:
            second = Cluster(seed, self.size, first=self.cluster)
            self.second_plan = FollowingPlan(second, Random(seed + 7), self.plan)
        elif Random(seed + 10).random() < CONTROLLER_SHARE:
            self.cluster.controlled = True
            self.brokers = Brokers(self.cluster, Random(seed + 11))
        self.recovery: Recovery | None = None
        has_recovery = Random(seed + 12).random() < RECOVERY_SHARE if not only else RECOVERY in only
        if has_recovery and self._is_recoverable():
            random = Random(seed + 13)
            self.recovery = Recovery(self.cluster, self.plan, random, self._await)
        self.partitions = self.cluster.partitions
        for cluster in self.partitions:
            cluster.watch.use([invariant(cluster) for invariant in INVARIANTS])

    @property
    def history(self) -> list[str]:
        """Everything that struck, formation included."""
        before = self.static.history if self.static else ()
        after = self.recovery.history if self.recovery else ()
        return [*before, *self.faults.history, *after]

    def _is_recoverable(self) -> bool:
        """One partition, served to clients by the log alone; a witness is never the survivor."""
        alone = self.static is None and self.second_plan is None and self.brokers is None
        return alone and not self.cluster.with_witness

    def play(self) -> Outcome:
        """The whole history."""
        self._form()
        self._trouble()
        self._calm()
        for cluster in self.partitions:
            cluster.watch.finished()
        if self.recovery is not None and len(self.plan.wanted) >= RECOVERY_LEAST_VOTERS:
            self.recovery.play()
        self._note()
        return self.outcome

    def _form(self) -> None:
        if self.static is not None:
            self.static.begin(self.size)
            self._await(self.plan.is_done, STATIC_FORMATION_LIMIT_MS, "static formation")
            self.static.end()
            return
        self.plan.found(self.size)
        if self.second_plan is not None:
            self.second_plan.begin()
        self._await(self._as_wanted, FORMATION_LIMIT_MS, "formation")

    def _as_wanted(self) -> bool:
        return self.plan.is_done() and (self.second_plan is None or self.second_plan.is_done())

    def _trouble(self) -> None:
        self.plan.changes = 0
        self.plan.restless = True
        for cluster in self.partitions:
            cluster.clients.begin()
        if self.brokers is not None:
            self.brokers.begin()
        self.faults.begin()
        self._await(self._had_enough, TROUBLE_LIMIT_MS, "enough writes, faults and changes")

    def _calm(self) -> None:
        self.faults.end()
        self.plan.restless = False
        for cluster in self.partitions:
            cluster.clients.slow = True
        calm_from_ms = self.cluster.scheduler.now_ms
        before = [len(cluster.clients.acknowledged) for cluster in self.partitions]
        self._await(
            lambda: (
                self._as_wanted()
                and not self.plan.death_is_news()
                and all(
                    len(cluster.clients.acknowledged) > count and _everyone_caught_up(cluster)
                    for cluster, count in zip(self.partitions, before, strict=True)
                )
            ),
            CALM_LIMIT_MS,
            "a leader, the wanted voters and everyone caught up after the faults stopped",
        )
        self.outcome.calm_ms = self.cluster.scheduler.now_ms - calm_from_ms

    def _had_enough(self) -> bool:
        if len(self.cluster.clients.acknowledged) < WANTED_WRITES:
            return False
        second = self.cluster.second
        if second is not None and len(second.clients.acknowledged) < SECOND_PARTITION_WRITES:
            return False
        for cluster in self.partitions:
            cluster.clients.slow = True
        return self.faults.count >= WANTED_FAULTS and self.plan.changes >= WANTED_CHANGES

    def _await(self, done: object, limit_ms: float, what: str) -> None:
        assert callable(done)
        scheduler = self.cluster.scheduler
        if not scheduler.run_until(done, scheduler.now_ms + limit_ms):
            self._note()
            raise Violation(f"not within {limit_ms / 1000:.0f} s: {what}\n{self._situation()}")

    def _situation(self) -> str:
        lines = []
        for host in (host for each in self.partitions for host in each.hosts.values()):
            state = "up" if host.up else "retired" if host.retired else "down"
            replica = host.replica
            latest = replica.voters.latest
            voters = " ".join(str(key.id) for key in latest.voters.ordered_keys)
            if latest.record.target_voters is not None:
                voters += " → " + " ".join(str(key.id) for key in latest.record.target_voters)
            lines.append(
                f"{host.address} {state} {replica.role.name.value} epoch {replica.epoch}"
                f" log {replica.epochs.last_epoch}/{replica.log_end}"
                f" high watermark {replica.high_watermark} voters [{voters}]"
                f" leader {replica.leader_id}"
            )
        wanted = " ".join(host.address for host in self.plan.wanted)
        lines.append(f"wanted: {wanted}; changes {self.plan.changes}; {self.plan.refusals}")
        lines.append(f"target voters: {dict(self.plan.alterations.counts)}")
        if self.cluster.leader is not None:
            lines.append(self.cluster.leader.driver.describe().plan)
        lines.append(
            f"{len(self.cluster.clients.acknowledged)} writes, {self.faults.count} faults,"
            f" {self.plan.changes} changes"
        )
        return "\n".join(lines)

    def _note(self) -> None:
        outcome, clients = self.outcome, self.cluster.clients
        outcome.writes, outcome.reads = len(clients.acknowledged), clients.reads
        outcome.changes, outcome.faults = self.plan.changes, self.faults.count
        outcome.struck, outcome.history = self.faults.struck, self.history
        outcome.recovery = self.cluster.recovery_counts
        if self.cluster.recovered is not None:
            outcome.struck[RECOVERY, "steady"] += 1
        outcome.static = self.static is not None
        outcome.controlled = self.cluster.controlled
        outcome.epochs = max(h.replica.epoch for h in self.cluster.hosts.values())
        outcome.snapshots = self.cluster.snapshot_counts
        outcome.partitions = len(self.partitions)
        if self.cluster.second is not None:
            outcome.second_writes = len(self.cluster.second.clients.acknowledged)
        outcome.events = self.cluster.scheduler.executed
        outcome.simulated_ms = self.cluster.scheduler.now_ms


def _everyone_caught_up(cluster: Cluster) -> bool:
    leader = cluster.leader
    if leader is None:
        return False
    committed = leader.replica.high_watermark
    return all(host.up and host.replica.high_watermark == committed for host in cluster.members())
