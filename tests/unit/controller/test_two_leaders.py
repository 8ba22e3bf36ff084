"""Two brokers that both think they lead can't both commit: the design's case 3, played to its end (KV3-11)."""

from random import Random

import pytest

from quorum_node.protocol.errors import ErrorCode
from support.partition_replicas import Broker, Replicas

pytestmark = pytest.mark.requirement("KV3-11")

A, B, C = 1, 2, 3


def replicated(replicas: Replicas, leader: int, message: str, *followers: int) -> None:
    """Written to a leader, and fetched: the second fetch acknowledges the first."""
    replicas.produce(leader, message)
    for follower in followers * 2:
        assert replicas.fetch(follower)


def test_case_3_of_the_document() -> None:
    """A pauses, B leads with the ISR {B, C}; A resumes without this information, and assumes the ISR {A, B, C}."""
    replicas = Replicas(A, B, C)
    replicated(replicas, A, "before", B, C)
    replicated(replicas, A, "known to be committed", B, C)
    assert replicas.acknowledged[0] == (A, (0, "before"))
    replicas.fence(A)
    assert (replicas.truth.leader, replicas.truth.isr) == (B, (B, C))
    replicas.learn(B)
    assert replicas.brokers[A].leads
    assert replicas.brokers[B].leads

    committed = dict(replicas.committed)
    replicas.produce(A, "of the old leader")
    for _ in range(3):
        assert replicas.fetch(C), "C has not received B's epoch yet"
        assert not replicas.fetch(B), "the leader fetches from a replica"
    assert (0, "of the old leader") in replicas.brokers[C].log
    for isr in ((A,), (A, C), (A, B), (A, B, C)):
        assert replicas.alter(A, *isr) is ErrorCode.FENCED_LEADER_EPOCH
    assert replicas.committed == committed, "A committed without a majority"

    replicas.produce(B, "of the new leader")
    assert replicas.committed == committed, "B needs C"
    replicas.learn(C)
    for _ in range(2):
        assert replicas.fetch(C)
    assert replicas.acknowledged[-1] == (B, (1, "of the new leader"))
    for isr in ((A,), (A, C)):
        assert replicas.alter(A, *isr) is ErrorCode.FENCED_LEADER_EPOCH, (
            "C has not received the epoch yet"
        )

    replicas.fence(A, fenced=False)
    for broker in (A, B, C):
        replicas.learn(broker)
    assert replicas.fetch(A)
    assert len({tuple(each.log) for each in replicas.brokers.values()}) == 1
    assert (0, "of the old leader") not in replicas.brokers[A].log
    assert [entry for _, entry in replicas.acknowledged] == [
        (0, "before"),
        (0, "known to be committed"),
        (1, "of the new leader"),
    ]


def test_old_leader_commits_alone_only_if_it_was_the_whole_isr() -> None:
    """It shrinks its ISR before it pauses: then no other replica may lead, and what it commits is safe."""
    replicas = Replicas(A, B, C)
    assert replicas.alter(A, A) is ErrorCode.NONE
    replicas.fence(A)
    assert replicas.truth.leader == -1
    replicas.learn(B)
    assert not replicas.brokers[B].leads
    replicas.produce(A, "alone")
    assert replicas.acknowledged == [(A, (0, "alone"))]
    replicas.fence(A, fenced=False)
    for broker in (A, B, C):
        replicas.learn(broker)
    replicated(replicas, A, "together", B)
    assert replicas.brokers[B].log[0] == (0, "alone")


def test_no_order_of_events_commits_twice_or_loses_committed_records() -> None:
    """Brokers pause, get metadata late, write, fetch and propose any ISR; `Replicas` rejects a second entry at an offset."""
    together = committed = elections = 0
    for seed in range(200):
        replicas = Replicas(A, B, C)
        together += play(replicas, Random(seed))
        committed += len(replicas.committed)
        elections += replicas.truth.leader_epoch
        if replicas.truth.leader >= 0:
            log = replicas.brokers[replicas.truth.leader].log
            assert {offset: log[offset] for offset in replicas.committed} == replicas.committed
    assert min(together, committed, elections) > 1000, (together, committed, elections)


def play(replicas: Replicas, random: Random) -> int:
    """The number of events, and during how many of them two brokers acted as leader."""
    fenced: set[int] = set()
    together = 0
    for number in range(300):
        broker = replicas.brokers[random.choice((A, B, C))]
        event = random.random()
        if event < 0.06:
            fenced ^= {broker.id}
            replicas.fence(broker.id, fenced=broker.id in fenced)
        elif event < 0.13:
            replicas.learn(broker.id)
        elif event < 0.3 and broker.leads:
            replicas.produce(broker.id, str(number))
        elif event < 0.5 and broker.leads:
            replicas.alter(broker.id, *wanted_isr(broker, random))
        else:
            replicas.fetch(broker.id)
        together += sum(each.leads for each in replicas.brokers.values()) > 1
    return together


def wanted_isr(leader: Broker, random: Random) -> list[int]:
    """Some of the ISR that the leader knows, or all replicas with all its records."""
    if random.random() < 0.5:
        return [each for each in leader.known.isr if each == leader.id or random.random() < 0.6]
    end = len(leader.log)
    return [each for each in (A, B, C) if each == leader.id or leader.ends.get(each) == end]
