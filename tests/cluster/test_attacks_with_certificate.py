"""Commits on a quorum with TLS and an authorizer while somebody who has a certificate attacks the leader.

A reader and a broker get past the handshake, so they cost more than a stranger can; what bounds them is counted by principal. The
demand is tighter than for strangers in `test_attacks`: p99 of a write at most twice its quiet value.
"""

from collections.abc import Iterator

import pytest

from support.attacked_writes import Measured, Writer, measure
from support.attacks import ATTACKS
from support.intruders import LockedQuorum

SHORT = ("reader", "unfinished")
"""The others are in the long set."""
MAX_RATIO = 2.0
ROUNDS = 5
MAX_MEMORY_MIB = 200


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedQuorum]:
    with LockedQuorum(tmp_path_factory.mktemp("attacked"), 3) as made:
        made.form()
        yield made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "name"),
    [
        pytest.param(who, name, marks=() if (who, name) == SHORT else pytest.mark.long)
        for who in ("reader", "broker")
        for name in ATTACKS
    ],
)
def test_commits_go_on_under(who: str, name: str, quorum: LockedQuorum) -> None:
    """An attack costs what it costs in every round, other work on the machine does not: the calmest round counts."""
    leader = quorum.leader
    epoch = quorum.describe()["leaderEpoch"]
    rounds: list[Measured] = []
    with quorum.browser("admin") as client:
        writer = Writer(f"{leader.admin_url}/v1/configs/topic/t/z", client)
        while len(rounds) < ROUNDS and not any(each.ratio <= MAX_RATIO for each in rounds):
            rounds.append(measure(name, leader, writer, quorum.folder(who)))
            print(f"{who} {name}: {rounds[-1]}")
    assert writer.failed == []
    assert quorum.describe()["leaderEpoch"] == epoch, "no election"
    assert max(each.grown_mib for each in rounds) < MAX_MEMORY_MIB
    assert min(each.ratio for each in rounds) <= MAX_RATIO
