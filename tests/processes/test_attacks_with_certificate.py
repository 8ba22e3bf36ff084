"""Commits on a quorum with the files that the operator writes by default, during attacks on the leader with a valid certificate.

A reader and a broker get past the handshake, so they cost more than an unauthenticated client; their limits are counted by principal.
The requirement is stricter than in `test_attacks`: p99 of a write at most twice its quiet value.
"""

import statistics
from collections.abc import Iterator

import pytest

from support.attacked_writes import Measured, Writer, attacked, measure
from support.attacks import ATTACKS
from support.local_quorum import wait_until
from support.operated_quorum import OperatedQuorum
from support.patience import fetch_timeout

MAX_RATIO = 2.0
LEAST_ROUNDS, MOST_ROUNDS = 3, 9
MAX_MEMORY_MIB = 200
MAX_UNFINISHED_BYTES = 16 << 20
"""Default of quorum.principal.queued.max.request.bytes."""
CLOSED = 'metadata_quorum_connections_closed_total{limit="controller quorum.principal.queued.max.request.bytes"}'


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatedQuorum]:
    with OperatedQuorum(tmp_path_factory.mktemp("attacked"), 3, **fetch_timeout(6000)) as made:
        made.form()
        yield made


@pytest.mark.slow
def test_one_reader_holds_at_most_the_unfinished_bytes_of_one_principal(
    quorum: OperatedQuorum,
) -> None:
    """Counts alone, so another load on the machine changes nothing; what it costs others is measured in the long set."""
    leader = quorum.leader
    epoch = quorum.describe()["leaderEpoch"]
    held: list[float] = []
    with quorum.browser("admin") as client:

        def metric(beginning: str) -> float:
            lines = client.get(f"{leader.admin_url}/metrics").raise_for_status().text.splitlines()
            return sum(float(each.split()[-1]) for each in lines if each.startswith(beginning))

        def has_closed() -> bool:
            held.append(metric("metadata_quorum_unfinished_request_bytes"))
            return metric(CLOSED) >= 3

        with attacked("unfinished", leader, quorum.folder("reader")):
            wait_until(has_closed, "the leader closes the reader's connections")
            answer = client.put(f"{leader.admin_url}/v1/configs/topic/t/z", json={"value": "v"})
    assert answer.is_success
    assert 0 < max(held) <= MAX_UNFINISHED_BYTES
    assert quorum.describe()["leaderEpoch"] == epoch, "no election"


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("who", ["reader", "broker"])
@pytest.mark.parametrize("name", ATTACKS)
def test_commits_continue_under_attack_with_certificate(
    who: str, name: str, quorum: OperatedQuorum
) -> None:
    """Quiet and attacked windows take turns. The median ratio of the rounds counts: other work on the machine spoils some of them."""
    leader = quorum.leader
    epoch = quorum.describe()["leaderEpoch"]
    rounds: list[Measured] = []
    with quorum.browser("admin") as client:
        writer = Writer(f"{leader.admin_url}/v1/configs/topic/t/z", client)
        while len(rounds) < LEAST_ROUNDS or (
            len(rounds) < MOST_ROUNDS and median_ratio(rounds) > MAX_RATIO
        ):
            rounds.append(measure(name, leader, writer, quorum.folder(who)))
            print(f"{who} {name}: {rounds[-1].ratio:.2f}, {rounds[-1]}")
    assert writer.failed == []
    assert quorum.describe()["leaderEpoch"] == epoch, "no election"
    assert max(each.grown_mib for each in rounds) < MAX_MEMORY_MIB
    assert median_ratio(rounds) <= MAX_RATIO


def median_ratio(rounds: list[Measured]) -> float:
    return statistics.median(each.ratio for each in rounds)
