"""Draws the acts of a round from a seed. Pure: the same seed and the same acts give the same round.

Owns the number of acts, their times and their overlap; and that a round never destroys, by its own acts, more voters than its smallest
quorum can lose.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from support.random_changes.act import Act, Drawn

USUAL = (3, 6)
"""Fewest and most acts of a round."""
_WITHIN_S = 18.0
_RANKS = 5040
_SIZES = (3, 3, 3, 5)
_ORDERS = ("Auto", "Auto", "AddFirst", "RemoveFirst")
_POLICIES = ("Retain", "Retain", "Delete")
_SPREADS = ("Preferred", "Preferred", "Preferred", "None")
"""Required would hold back every planned move of the round: there are no more hosts than members."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a seed stands for: the quorum that it begins with, and the acts in their order."""

    seed: int
    replicas: int
    replacement_order: str
    deletion_policy: str
    spread: str
    acts: tuple[Drawn, ...]

    @property
    def choices(self) -> dict[str, object]:
        """Fields of the resource that the round begins with, beside the replicas."""
        return {
            "replacementOrder": self.replacement_order,
            "deletionPolicy": self.deletion_policy,
            "spread": self.spread,
        }

    def __str__(self) -> str:
        first = f"seed {self.seed}: {self.replicas} replicas, {self.choices}"
        return "\n".join([first, *(f"  {each}" for each in self.acts)])


def draw(seed: int, acts: Sequence[Act], count: tuple[int, int] = USUAL) -> Round:
    """The round of this seed, of at least and at most so many acts."""
    # A string is hashed into the seed, equally in every process. Consecutive numbers would give
    # similar sequences.
    rng = random.Random(f"anything {seed}")
    replicas = rng.choice(_SIZES)
    order, policy = rng.choice(_ORDERS), rng.choice(_POLICIES)
    spread = rng.choice(_SPREADS)
    wanted = min(rng.randint(*count), len(acts))
    chosen: list[Act] = []
    # The acts take turns to be the first one: consecutive seeds leave none out.
    for candidate in (acts[seed % len(acts)], *rng.sample(acts, len(acts))):
        if candidate in chosen:
            continue
        if len(chosen) < wanted and is_bearable(replicas, [*chosen, candidate]):
            chosen.append(candidate)
    times = sorted(round(rng.uniform(0, _WITHIN_S), 1) for _ in chosen)
    drawn = [_drawn(rng, each, at_s) for each, at_s in zip(chosen, times, strict=True)]
    return Round(seed, replicas, order, policy, spread, tuple(drawn))


def is_bearable(replicas: int, chosen: Sequence[Act]) -> bool:
    """Whether the smallest quorum that is asked for can lose what the acts may destroy, and each has the room it needs."""
    if len(chosen) > 1 and any(each.alone for each in chosen):
        return False
    smallest = min([replicas, *(each.wants for each in chosen if each.wants is not None)])
    return sum(each.destroys for each in chosen) <= (smallest - 1) // 2


def _drawn(rng: random.Random, chosen: Act, at_s: float) -> Drawn:
    lasts = chosen.lasts_s
    lasts_s = round(rng.uniform(*lasts), 1) if lasts is not None else None
    rank, leader = rng.randrange(_RANKS), rng.random() < 0.3
    return Drawn(chosen, at_s, lasts_s, rank, leader, rng.randrange(_RANKS))
