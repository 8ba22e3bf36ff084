"""What commands may not find out by themselves: the time, and anything random."""

from collections.abc import Callable
from dataclasses import dataclass
from random import SystemRandom
from uuid import UUID

from quorum_node.fresh_uuid import fresh_uuid


@dataclass(frozen=True, slots=True)
class Chance:
    """`now_ms` is monotonic; `random(n)` is from 0 to n - 1."""

    now_ms: Callable[[], float]
    fresh_uuid: Callable[[], UUID] = fresh_uuid
    random: Callable[[int], int] = SystemRandom().randrange
