"""Commits during the most expensive attacks without a token: their p99 stays near its quiet value.

The quiet value is measured in the same run, before and after, so that a busy machine counts on both sides.
"""

from collections.abc import Iterator

import httpx
import pytest

from support.attacked_writes import Measured, Writer, attacked, measure
from support.attacks import ATTACKS
from support.local_quorum import TOKEN, LocalNode, LocalQuorum, wait_until
from support.patience import fetch_timeout

SHORT = ("posts", "log-reads", "unfinished", "many-voters")
"""The others are in the long set."""
MAX_RATIO = 5.0
ROUNDS = 3
RECORDS = 10_000
MAX_MEMORY_MIB = 200


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalQuorum]:
    with LocalQuorum(
        tmp_path_factory.mktemp("attacked"), 3, properties=fetch_timeout(6000)
    ) as made:
        made.form()
        for part in range(RECORDS // 1000):
            made.append({f"n{part}-{n}": "v" * 20 for n in range(1000)})
        yield made


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [each if each in SHORT else pytest.param(each, marks=pytest.mark.long) for each in ATTACKS],
)
def test_commits_continue_under_attack(name: str, quorum: LocalQuorum) -> None:
    """An attack costs what it costs in every round, other work on the machine does not: the calmest of three counts."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    rounds: list[Measured] = []
    spoilt: list[str] = []
    with httpx.Client(timeout=10, trust_env=False, verify=False, headers=headers) as client:
        while len(rounds) < ROUNDS and len(spoilt) == len(rounds):
            leader, epoch = quorum.leader, quorum.describe()["leaderEpoch"]
            writer = Writer(f"{leader.admin_url}/v1/configs/topic/t/z", client)
            rounds.append(measure(name, leader, writer))
            print(f"{name}: {rounds[-1]}")
            has_elected = quorum.describe()["leaderEpoch"] != epoch
            if writer.failed or has_elected or rounds[-1].ratio > MAX_RATIO:
                spoilt.append(f"{rounds[-1]}, election: {has_elected}, failed: {writer.failed}")
    assert max(each.grown_mib for each in rounds) < MAX_MEMORY_MIB
    assert len(spoilt) < len(rounds), spoilt


@pytest.mark.slow
def test_voter_that_restarts_during_a_connection_flood_can_connect(quorum: LocalQuorum) -> None:
    """Every place on the leader's port is taken, from the very address of the voter."""
    leader, follower = quorum.leader, quorum.followers[0]
    with attacked("idle", leader):
        wait_until(lambda: closed_for_a_limit(leader) > 0, "the leader closes connections")
        follower.kill()
        follower.start()
        quorum.wait_caught_up(follower.id)
        position = quorum.put("while", "it is flooded")["endOffset"]
        wait_until(
            lambda: quorum.local(follower.id)["highWatermark"] >= position, "the voter follows"
        )
        assert quorum.leader.id == leader.id


def closed_for_a_limit(node: LocalNode) -> float:
    text = httpx.get(f"{node.admin_url}/metrics", trust_env=False, verify=False, timeout=30).text
    lines = [line for line in text.splitlines() if "connections_closed_total{" in line]
    return sum(float(line.split()[-1]) for line in lines)
