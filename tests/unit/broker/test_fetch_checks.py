"""Which fetches a leader and a follower refuse, with the error codes of a stock broker (KIP-320, KIP-392, KIP-903)."""

import pytest

from quorum_node.broker.epoch_history import NO_EPOCH, EpochEnd
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.follower_progress import NO_BROKER_EPOCH
from quorum_node.broker.log_shape import OpenedLog
from quorum_node.broker.outputs import ProposeIsr, RefuseFetch, ReportDivergence, ServeFetch
from support.replica_env import ME, B, C, ReplicaEnv

LONG = OpenedLog(start_offset=5, end_offset=20, high_watermark=12, epoch_starts=((1, 5), (3, 10)))
STRANGER = 9


def leading(isr: tuple[int, ...] = (ME, B, C), opened: OpenedLog = LONG) -> ReplicaEnv:
    env = ReplicaEnv(opened)
    env.told(ME, 5, 8, isr)
    return env


def following() -> ReplicaEnv:
    env = ReplicaEnv(LONG)
    env.told(B, 5, 8)
    return env


# -- broker epochs


def test_fetch_of_an_earlier_broker_process_is_rejected_after_a_later_registration() -> None:
    env = leading()
    env.fetched_by(B, 20, broker_epoch=11)
    assert env.one(RefuseFetch).error is BrokerError.NOT_LEADER_OR_FOLLOWER
    assert env.leader.followers[B].end_offset == -1, "the refused fetch changed the state"
    env.fetched_by(B, 20, broker_epoch=12)
    assert env.one(ServeFetch).end_offset == 20


def test_fetch_of_a_newer_broker_epoch_is_served_and_does_not_join_the_isr() -> None:
    env = leading(isr=(ME, B))
    env.fetched_by(C, 20, broker_epoch=14)
    assert env.one(ServeFetch).end_offset == 20
    assert not env.all(ProposeIsr)
    env.fetched_by(C, 20, broker_epoch=13)
    assert [each for each, _ in env.one(ProposeIsr).members] == [ME, B, C], (
        "that fetch changed nothing"
    )


@pytest.mark.parametrize(
    ("offset", "last_epoch", "answer"),
    [
        (12, 2, EpochEnd(1, 10)),
        (4, 1, BrokerError.OFFSET_OUT_OF_RANGE),
        (21, -1, BrokerError.OFFSET_OUT_OF_RANGE),
        (20, 9, BrokerError.OFFSET_OUT_OF_RANGE),
    ],
)
def test_divergence_is_checked_before_a_stale_broker_epoch(
    offset: int, last_epoch: int, answer: EpochEnd | BrokerError
) -> None:
    env = leading()
    env.fetched_by(B, offset, last_epoch, broker_epoch=11)
    if isinstance(answer, EpochEnd):
        assert env.one(ReportDivergence).leader == answer
    else:
        assert env.one(RefuseFetch).error is answer
    assert env.leader.followers[B].end_offset == -1


def test_follower_without_a_broker_epoch_is_served_and_may_join_the_isr() -> None:
    """Before version 15 Fetch has none: brokers with a metadata.version before 3.5 must be able to join."""
    env = leading(isr=(ME, B))
    env.fetched_by(C, 20, broker_epoch=NO_BROKER_EPOCH)
    assert env.one(ServeFetch).end_offset == 20
    assert env.one(ProposeIsr).members == ((ME, 11), (B, -1), (C, NO_BROKER_EPOCH))


def test_fenced_follower_without_a_broker_epoch_does_not_join_the_isr() -> None:
    env = leading(isr=(ME, B))
    del env.active[C]
    env.told(ME, 5, 9, isr=(ME, B))
    env.fetched_by(C, 20, broker_epoch=NO_BROKER_EPOCH)
    assert env.one(ServeFetch).end_offset == 20
    assert not env.all(ProposeIsr)


# -- leader epochs


def test_follower_without_a_leader_epoch_is_served() -> None:
    env = leading()
    env.fetched_by(B, 20, leader_epoch=NO_EPOCH)
    assert env.one(ServeFetch).end_offset == 20


@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [
        (NO_EPOCH, BrokerError.NOT_LEADER_OR_FOLLOWER),
        (4, BrokerError.FENCED_LEADER_EPOCH),
        (5, BrokerError.UNKNOWN_LEADER_EPOCH),
        (6, BrokerError.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_broker_without_a_replica_is_rejected(leader_epoch: int, error: BrokerError) -> None:
    env = leading()
    env.active[STRANGER] = 19
    env.fetched_by(STRANGER, 20, leader_epoch=leader_epoch)
    assert env.one(RefuseFetch).error is error


@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [
        (NO_EPOCH, BrokerError.NOT_LEADER_OR_FOLLOWER),
        (4, BrokerError.FENCED_LEADER_EPOCH),
        (5, BrokerError.NOT_LEADER_OR_FOLLOWER),
        (6, BrokerError.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_non_leader_rejects_followers_and_old_consumers(
    leader_epoch: int, error: BrokerError
) -> None:
    env = following()
    env.fetched_by(C, 20, leader_epoch=leader_epoch)
    assert env.one(RefuseFetch).error is error
    env.read(7, leader_epoch, only_leader=True)
    assert env.one(RefuseFetch).error is error


def test_follower_serves_consumers_with_the_current_leader_epoch_or_none() -> None:
    env = following()
    for leader_epoch in (NO_EPOCH, 5):
        env.read(7, leader_epoch)
        assert env.one(ServeFetch).end_offset == 12, "its high watermark"
    env.read(7, 4)
    assert env.one(RefuseFetch).error is BrokerError.FENCED_LEADER_EPOCH
    env.read(7, 6)
    assert env.one(RefuseFetch).error is BrokerError.UNKNOWN_LEADER_EPOCH
    env.read(21)
    assert env.one(RefuseFetch).error is BrokerError.OFFSET_OUT_OF_RANGE


def test_consumer_with_a_last_fetched_epoch_gets_the_diverging_epoch() -> None:
    env = leading()
    env.read(12, last_epoch=2)
    assert env.one(ReportDivergence).leader == EpochEnd(1, 10)
    env.read(12, last_epoch=3)
    assert env.one(ServeFetch).fetch_offset == 12
    env.read(12, last_epoch=9)
    assert env.one(RefuseFetch).error is BrokerError.OFFSET_OUT_OF_RANGE
