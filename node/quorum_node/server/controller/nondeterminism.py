"""The inputs of commands that are not deterministic: the time, new UUIDs and random numbers. Tests and the simulation replace them."""

from collections.abc import Callable
from dataclasses import dataclass
from random import SystemRandom
from uuid import UUID

from quorum_node.fresh_uuid import fresh_uuid


@dataclass(frozen=True, slots=True)
class Nondeterminism:
    """`now_ms`: monotonic, in milliseconds. `random(n)`: from 0 to n - 1."""

    now_ms: Callable[[], float]
    fresh_uuid: Callable[[], UUID] = fresh_uuid
    random: Callable[[int], int] = SystemRandom().randrange
