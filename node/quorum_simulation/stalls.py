"""`python -m quorum_simulation.stalls --seeds 1..100`: pauses of 0.5 to 2 s, and the elections that they cause.

Owns pauses of processes and disks, and the count of epochs and of the time without an acknowledged write. Must not
know the rules of the core. There are no other faults, so every election is caused by a pause. `--silence-share 1`
disables early pre-votes, for a comparison.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from statistics import mean

from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.committed_never_lost import CommittedNeverLost
from quorum_simulation.invariants.single_leader import SingleLeader
from quorum_simulation.membership_plan import MembershipPlan

LENGTHS_MS = ((500, 1000), (1000, 1500), (1500, 2000))
SIZES = (3, 3, 5)
STALLS = 12
SETTLED_MS = 3000.0
FORMATION_LIMIT_MS = 20_000.0


@dataclass(frozen=True, slots=True)
class Stall:
    """One pause. `elections`: epochs begun from its beginning until everything was calm again."""

    kind: str
    length_ms: float
    elections: int
    gap_ms: float
    """Longest time without an acknowledged write."""


class StallStory:
    """A quorum with clients, paused again and again. `busy`: writes follow each other closely."""

    def __init__(self, seed: int, silence_share: float, stalls: int = STALLS) -> None:
        self._stalls = stalls
        self._random = Random(seed)
        self._size = self._random.choice(SIZES)
        self._busy = self._random.random() < 0.25
        self._cluster = Cluster(seed, initial_voters=self._size)
        self._cluster.silence_share = silence_share
        self._plan = MembershipPlan(self._cluster, Random(seed + 3))
        self._cluster.watch.use([SingleLeader(self._cluster), CommittedNeverLost(self._cluster)])

    def play(self) -> list[Stall]:
        """Every kind in turn, with random lengths."""
        scheduler = self._cluster.scheduler
        self._plan.found(self._size)
        if not scheduler.run_until(self._plan.is_done, scheduler.now_ms + FORMATION_LIMIT_MS):
            raise AssertionError("no formation")
        self._cluster.clients.slow = not self._busy
        self._cluster.clients.begin()
        self._run(SETTLED_MS)
        kinds = list(self._kinds())
        return [self._stall(kinds[number % len(kinds)]) for number in range(self._stalls)]

    def _kinds(self) -> dict[str, Callable[[float], None]]:
        return {
            "the leader": lambda until_ms: self._freeze([self._leader()], until_ms),
            "one follower": lambda until_ms: self._freeze(self._followers()[:1], until_ms),
            "all followers": lambda until_ms: self._freeze(self._followers(), until_ms),
            "all processes": lambda until_ms: self._freeze(self._hosts(), until_ms),
            "the disk of the leader": lambda until_ms: self._block([self._leader()], until_ms),
            "all disks": lambda until_ms: self._block(self._hosts(), until_ms),
        }

    def _stall(self, kind: str) -> Stall:
        scheduler, acknowledged = self._cluster.scheduler, self._cluster.clients.acknowledged
        length_ms = LENGTHS_MS[0][0] + self._random.random() * (
            LENGTHS_MS[-1][1] - LENGTHS_MS[0][0]
        )
        self._run(self._random.random() * 700)
        epoch, last_ms, count, gap_ms = self._epoch(), scheduler.now_ms, len(acknowledged), 0.0
        end_ms = scheduler.now_ms + length_ms
        self._kinds()[kind](end_ms)
        while scheduler.now_ms < end_ms + SETTLED_MS:
            self._run(2)
            if len(acknowledged) > count:
                gap_ms = max(gap_ms, scheduler.now_ms - last_ms)
                count, last_ms = len(acknowledged), scheduler.now_ms
        return Stall(
            kind, length_ms, self._epoch() - epoch, max(gap_ms, scheduler.now_ms - last_ms)
        )

    def _run(self, ms: float) -> None:
        scheduler = self._cluster.scheduler
        scheduler.run_until(lambda: False, scheduler.now_ms + ms)

    def _freeze(self, hosts: list[SimulatedHost], until_ms: float) -> None:
        for host in hosts:
            host.machine.frozen_until_ms = until_ms

    def _block(self, hosts: list[SimulatedHost], until_ms: float) -> None:
        """A sync that begins now ends then."""
        scheduler = self._cluster.scheduler
        for host in hosts:
            machine = host.machine
            machine.sync_delay_ms = until_ms - scheduler.now_ms
            scheduler.after(1, setattr, machine, "sync_delay_ms", 0.0)

    def _epoch(self) -> int:
        return max(host.replica.epoch for host in self._hosts())

    def _hosts(self) -> list[SimulatedHost]:
        return list(self._cluster.hosts.values())

    def _leader(self) -> SimulatedHost:
        leader = self._cluster.leader
        assert leader is not None, "everything is calm, and nobody leads"
        return leader

    def _followers(self) -> list[SimulatedHost]:
        followers = [host for host in self._hosts() if host is not self._leader()]
        return self._random.sample(followers, len(followers))


def run(seeds: Iterable[int], silence_share: float = 0.5, stalls: int = STALLS) -> list[Stall]:
    """All pauses of these histories."""
    return [stall for seed in seeds for stall in StallStory(seed, silence_share, stalls).play()]


def table(stalls: list[Stall]) -> str:
    """By kind and length: number of pauses, elections, mean gap."""
    found: dict[tuple[str, tuple[int, int]], list[Stall]] = defaultdict(list)
    for stall in stalls:
        span = next(span for span in LENGTHS_MS if stall.length_ms <= span[1])
        found[stall.kind, span].append(stall)
    spans = [f"{low / 1000:g} to {high / 1000:g} s" for low, high in LENGTHS_MS]
    lines = [f"| pause of | {' | '.join(spans)} |", "|---|" + "---|" * len(spans)]
    for kind in dict.fromkeys(stall.kind for stall in stalls):
        cells = []
        for span in LENGTHS_MS:
            some = found.get((kind, span), [])
            gap = f"{mean(stall.gap_ms for stall in some):.0f} ms" if some else "–"
            cells.append(f"{sum(s.elections for s in some)} in {len(some)}, {gap}")
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m quorum_simulation.stalls",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", default="1..100")
    parser.add_argument("--silence-share", type=float, default=0.5)
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("..")
    print("Elections in so many pauses, mean of the longest time without an acknowledged write:\n")
    print(table(run(range(int(first), int(last or first) + 1), arguments.silence_share)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
