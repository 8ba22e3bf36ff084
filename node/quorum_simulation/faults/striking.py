"""Schedules faults: a kind and a phase are chosen, the phase is awaited, and so on until there were enough.

Owns the schedule, the count of faults by phase, and processes that end by themselves. Must not know any kind of
fault.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random

from quorum_node.raft.outputs import HaltReason, RoleChanged, VotersChanged
from quorum_simulation.cluster import Cluster
from quorum_simulation.faults.families import (
    FAMILIES,
    FEW_KINDS,
    FEW_KINDS_SHARE,
    LATER_FAMILIES,
    LATER_SHARE,
    LATER_WEIGHT,
)
from quorum_simulation.faults.family import Family, FaultContext, Kind
from quorum_simulation.faults.phases import DOWNLOADING, phase_of
from quorum_simulation.host import SimulatedHost
from quorum_simulation.membership_plan import MembershipPlan

LONGEST_WAIT_MS = 800.0
LATER_SEED = 14
"""Added to the seed of a history for the randomness of the later families; see `families.py`."""


class Faults:
    """Picks a kind and a phase, waits for the phase, strikes, mends, and goes on until told to stop."""

    def __init__(
        self, cluster: Cluster, plan: MembershipPlan, random: Random, only: frozenset[str]
    ) -> None:
        self._cluster = cluster
        self._plan = plan
        self._random = random
        self._context = FaultContext(cluster, plan, random)
        later = FaultContext(cluster, plan, Random(cluster.seed + LATER_SEED))
        self._first = [family(self._context) for family in FAMILIES]
        self._later = [family(later) for family in LATER_FAMILIES]
        self._has_later = Random(cluster.seed + LATER_SEED + 1).random() < LATER_SHARE
        self.struck: Counter[tuple[str, str]] = Counter()
        self.history: list[str] = []
        self.count = 0
        self._active = False
        self._armed: tuple[Kind, str] | None = None
        self._strike_number = 0
        self.kinds = self._chosen(only)

    @property
    def all_kinds(self) -> tuple[Kind, ...]:
        """Every kind that there is, also those that do not occur in this history."""
        return (*_kinds(self._first), *_kinds(self._later))

    def _chosen(self, only: frozenset[str]) -> tuple[Kind, ...]:
        unknown = sorted(only - {kind.name for kind in self.all_kinds})
        if unknown:
            raise ValueError(f"no kinds of faults: {', '.join(unknown)}")
        if only:
            return tuple(kind for kind in self.all_kinds if kind.name in only)
        first = tuple(kind for kind in _kinds(self._first) if kind.on)
        if not self._has_later:
            return first
        later = tuple(kind for kind in _kinds(self._later) if kind.on) * LATER_WEIGHT
        random = Random(self._cluster.seed + LATER_SEED + 2)
        if random.random() < FEW_KINDS_SHARE:
            first = tuple(random.sample(first, FEW_KINDS))
        return (*first, *later)

    def begin(self) -> None:
        """Start the faults."""
        self._active = True
        cluster = self._cluster
        cluster.on_role, cluster.on_voters = self._role_changed, self._voters_changed
        cluster.on_halted, cluster.on_download = self._halted, self._downloads
        self._arm()

    def end(self) -> None:
        """End all faults: heal what can be healed, and start all processes that can run."""
        self._active = False
        for family in (*self._first, *self._later):
            family.heal()
        for host in self._cluster.hosts.values():
            self._context.restart(host)

    def phase(self, wanted: str) -> str:
        """Present activity of the quorum; see `phase_of`."""
        return phase_of(self._cluster, self._plan, wanted)

    def _arm(self) -> None:
        if not self._active:
            return
        kind = self._random.choice(self.kinds)
        phase = self._random.choice(kind.phases)
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
        if self._armed is not None and self._armed[1] == DOWNLOADING:
            self._strike_soon()

    def _strike_soon(self) -> None:
        if self._armed is None or not self._active:
            return
        if self.phase(self._armed[1]) == self._armed[1]:
            number = self._strike_number
            self._cluster.scheduler.after(self._random.random(), self._strike, number, False)

    def _strike(self, number: int, last: bool = True) -> None:
        """Apply a fault. If it has no target it is tried again for a while, as a leader may be elected."""
        if number != self._strike_number or self._armed is None or not self._active:
            return
        kind, wanted = self._armed
        phase = self.phase(wanted)
        now_ms = self._cluster.scheduler.now_ms
        struck = kind.strike()
        if not struck and not last:
            return
        self._armed = None
        if struck:
            self.struck[(kind.name, phase)] += 1
            self.count += 1
            self._cluster.disturbed()
            self.history.append(f"{now_ms:9.1f} ms  {kind.name} while {phase}")
        # The pauses grow with the length of the history, so that the quorum makes progress.
        patience = 1 + self.count / 15
        delay_ms = (50 + self._random.random() * 400) * patience
        self._cluster.scheduler.after(delay_ms, self._arm)

    def _halted(self, host: SimulatedHost) -> None:
        if host.halted is HaltReason.STORAGE_FAILED and host.machine.keeps_mark:
            self._context.bury(host)
        elif host.halted is HaltReason.STORAGE_FAILED:
            host.machine.keeps_mark = True
            self._context.later(20, 800, self._context.restart, host)
        elif host.halted is HaltReason.DISK_FULL and host.disk.full:
            return  # restarted when its disk is repaired
        elif host.halted in (HaltReason.SHUTDOWN, HaltReason.DISK_FULL):
            self._context.later(20, 800, self._context.restart, host)
        else:
            raise AssertionError(f"{host.address} halted: {host.halted}")


def _kinds(families: Sequence[Family]) -> tuple[Kind, ...]:
    return tuple(kind for family in families for kind in family.kinds())
