"""Three voters with the shortest timeouts that a node accepts, on a real clock."""

import time

import pytest

from support.local_quorum import LocalQuorum
from support.shortest_timeouts import SHORTEST_MS, as_properties

ROUNDS, ROUND_SECONDS = 12, 3.0
"""A busy machine may hold a node up for longer than these timeouts: the calmest round counts."""


def leadership(quorum: LocalQuorum) -> tuple[int, int]:
    """Leader and epoch, as a majority confirms them."""
    found = quorum.describe()
    return found["leaderId"], found["leaderEpoch"]


@pytest.mark.slow
@pytest.mark.requirement("K595-01")
def test_leader_stays_with_the_shortest_timeouts(make_quorum) -> None:
    """Idle in one half of each round, with writes in the other."""
    quorum: LocalQuorum = make_quorum(3, formed=True, properties=as_properties(SHORTEST_MS))
    rounds: list[tuple[tuple[int, int], tuple[int, int]]] = []
    while len(rounds) < ROUNDS and not any(before == after for before, after in rounds):
        before, ends_at = leadership(quorum), time.monotonic() + ROUND_SECONDS
        time.sleep(ROUND_SECONDS / 2)
        written = 0
        while time.monotonic() < ends_at:
            quorum.put("n", str(written))
            written += 1
        rounds.append((before, leadership(quorum)))
        assert quorum.get("n") == str(written - 1)
    assert any(before == after for before, after in rounds), rounds
