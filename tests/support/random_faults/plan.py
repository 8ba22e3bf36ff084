"""Draws a round from its seed. Pure: the same seed gives the same round.

Owns the size of the cluster, the load, and the acts with their times; and that at most one log directory is lost in a round.
Odd seeds are clusters of Python brokers alone. In even ones a stock Java broker is one of the three.
"""

import random
from dataclasses import dataclass

OURS, MIXED = (201, 202, 203), (201, 202, 101)
"""Broker ids."""
STOCK_FROM_ID, STOCK_TO_ID = 101, 200
"""Ids of stock brokers, the second one exclusive."""

LOST_DIRECTORY = "lose-directory"
ON_DISK = ("fill-directory", LOST_DIRECTORY)
"""Faults of a log directory that is a file system of its own."""
OF_OURS = (*ON_DISK, "kill-all", "move-replica")
"""Acts on brokers of this software only."""
FAULTS: dict[str, tuple[float, float]] = {
    "kill": (0.2, 4.0),
    "kill-all": (0.2, 1.0),
    "terminate": (0.2, 2.0),
    "freeze": (0.5, 6.0),
    "cut-link": (0.5, 6.0),
    "cut-controllers": (0.5, 5.0),
    "kill-controller": (0.2, 3.0),
    "fill-directory": (1.0, 4.0),
    LOST_DIRECTORY: (1.0, 4.0),
}
"""By name, how long they last at least and at most, in seconds. What follows an end, such as a start, takes longer."""
OPERATIONS: dict[str, tuple[float, float]] = {
    "create-topic": (0.0, 0.0),
    "delete-topic": (0.0, 0.0),
    "alter-config": (0.0, 0.0),
    "reassign": (0.5, 5.0),
    "elect-preferred": (0.0, 0.0),
    "delete-records": (0.0, 0.0),
    "move-replica": (0.0, 0.0),
}
"""The same for operations on topics. A reassignment removes a replica, and at its end adds it again."""

_WITHIN_S = 9.0
_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
_WEIGHTS = {"kill": 3, "freeze": 3, "cut-link": 2}


@dataclass(frozen=True, slots=True)
class Act:
    """`broker` is its main target; `rank` and `share` (0 to 1) decide the rest, such as a partition or an offset."""

    name: str
    at_s: float
    lasts_s: float
    broker: int
    rank: int
    share: float

    def __str__(self) -> str:
        return (
            f"{self.at_s:5.1f} s {self.name} for {self.lasts_s} s, broker {self.broker},"
            f" rank {self.rank}, share {self.share}"
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What a seed stands for. `segment_ms`: after this time a log begins a new segment."""

    seed: int
    brokers: tuple[int, ...]
    controllers: int
    compression: str
    segment_ms: int
    acts: tuple[Act, ...]

    @property
    def is_mixed(self) -> bool:
        """Whether one of the brokers is a stock one."""
        return any(is_stock(each) for each in self.brokers)

    @property
    def isolation(self) -> str:
        """Of the consumer. Without transactions both levels give the same records, by different bounds."""
        return "read_uncommitted" if self.seed % 4 == 1 else "read_committed"

    @property
    def disks(self) -> frozenset[int]:
        """Brokers of which a log directory has to be a file system of its own."""
        return frozenset(each.broker for each in self.acts if each.name in ON_DISK)

    def __str__(self) -> str:
        first = (
            f"seed {self.seed}: brokers {self.brokers}, {self.controllers} controllers,"
            f" compression {self.compression}, segments of {self.segment_ms} ms"
        )
        return "\n".join([first, *(f"  {each}" for each in self.acts)])


def is_stock(broker_id: int) -> bool:
    """Whether a broker is a stock one."""
    return STOCK_FROM_ID <= broker_id < STOCK_TO_ID


def draw(seed: int) -> Plan:
    """The round of this seed."""
    # A string is hashed into the seed, equally in every process. Consecutive numbers would give similar sequences.
    rng = random.Random(f"random faults {seed}")
    brokers = OURS if seed % 2 else MIXED
    controllers = rng.choice((1, 1, 3))
    compression, segment_ms = rng.choice(_COMPRESSIONS), rng.choice((150, 400, 1500))
    names: list[str] = []
    for _ in range(rng.randint(4, 7)):
        names.append(_drawn_fault(rng, names, controllers))
    names += rng.choices(list(OPERATIONS), k=rng.randint(2, 4))
    acts = [_act(rng, each, brokers) for each in names]
    return Plan(
        seed,
        brokers,
        controllers,
        compression,
        segment_ms,
        tuple(sorted(acts, key=lambda each: each.at_s)),
    )


def _drawn_fault(rng: random.Random, already: list[str], controllers: int) -> str:
    """One that may occur in addition to those that are drawn already."""
    possible = [
        each
        for each in FAULTS
        if not (each == LOST_DIRECTORY and LOST_DIRECTORY in already)
        # With a single one the whole cluster would only wait.
        and not (each == "kill-controller" and controllers == 1)
    ]
    weights = [_WEIGHTS.get(each, 1) for each in possible]
    return rng.choices(possible, weights)[0]


def _act(rng: random.Random, name: str, brokers: tuple[int, ...]) -> Act:
    least, most = {**FAULTS, **OPERATIONS}[name]
    possible = [each for each in brokers if not (name in OF_OURS and is_stock(each))]
    return Act(
        name,
        round(rng.uniform(0.5, _WITHIN_S), 1),
        round(rng.uniform(least, most), 1),
        rng.choice(possible),
        rng.randrange(5040),
        round(rng.random(), 3),
    )
