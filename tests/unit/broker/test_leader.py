"""What a leader appends, commits and serves."""

import pytest

from quorum_node.broker.epoch_history import EpochEnd
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import SettingsChanged, Written
from quorum_node.broker.log_shape import OpenedLog
from quorum_node.broker.outputs import ProduceAnswered, RefuseFetch, ReportDivergence, ServeFetch
from quorum_node.broker.settings import PartitionSettings
from support.replica_env import ME, B, C, ReplicaEnv, leading

NONE = BrokerError.NONE
TWO = PartitionSettings(min_insync_replicas=2, replica_lag_time_max_ms=1000.0)


def caught_up(env: ReplicaEnv, *followers: int) -> None:
    for follower in followers:
        env.fetched_by(follower, env.replica.end_offset)


def test_acks_all_waits_for_the_whole_isr_and_the_local_writer() -> None:
    env = leading()
    env.produce(3)
    assert [(each.base_offset, each.leader_epoch) for each in env.appended] == [(0, 5)]
    caught_up(env, B, C)
    assert env.errors == []
    assert env.replica.high_watermark == 0
    env.write()
    assert env.one(ProduceAnswered) == ProduceAnswered(1, NONE, 0)
    assert env.replica.high_watermark == 3


@pytest.mark.requirement("KV3-09")
def test_high_watermark_is_the_smallest_end_offset_in_the_isr_and_never_decreases() -> None:
    env = leading()
    env.produce(2)
    env.produce(2)
    env.produce(2)
    env.write()
    env.fetched_by(B, 6)
    assert env.replica.high_watermark == 0, "C has not fetched yet"
    env.fetched_by(C, 4)
    assert env.replica.high_watermark == 4
    env.fetched_by(C, 2, broker_epoch=99)
    assert env.replica.high_watermark == 4


def test_acks_1_and_acks_0_wait_for_the_local_writer_only() -> None:
    env = leading()
    env.produce(acks=1)
    env.produce(acks=0)
    env.produce(acks=2)
    assert env.errors == [BrokerError.INVALID_REQUIRED_ACKS]
    env.write()
    assert env.errors == [NONE, NONE]
    assert env.replica.high_watermark == 0


def test_too_small_isr_rejects_acks_all() -> None:
    env = leading(isr=(ME,), settings=TWO)
    env.produce()
    assert env.errors == [BrokerError.NOT_ENOUGH_REPLICAS]
    assert env.replica.end_offset == 0, "nothing is written"
    env.produce(acks=1)
    env.write()
    assert env.replica.high_watermark == 0, (
        "no consumer sees what min.insync.replicas does not cover"
    )
    env.told(ME, 5, 10, isr=(ME, B))
    assert env.replica.high_watermark == 0, "B has not fetched it"
    env.fetched_by(B, 1)
    assert env.replica.high_watermark == 1


def test_partition_with_fewer_replicas_than_min_insync_replicas_needs_all_of_them() -> None:
    env = leading(settings=PartitionSettings(min_insync_replicas=5))
    env.produce()
    assert env.appended
    env.told(ME, 5, 10, isr=(ME, B))
    env.produce()
    assert env.errors == [BrokerError.NOT_ENOUGH_REPLICAS]


def test_changed_min_insync_replicas_applies_immediately() -> None:
    env = leading(isr=(ME,), settings=TWO)
    env.produce(acks=1)
    env.write()
    env.step(SettingsChanged(PartitionSettings(min_insync_replicas=1)))
    assert env.replica.high_watermark == 1


def test_timed_out_request_is_answered_and_its_batch_stays() -> None:
    env = leading()
    env.produce(producer=7, sequence=0)
    env.wait(499)
    assert env.errors == []
    env.wait(1)
    assert env.errors == [BrokerError.REQUEST_TIMED_OUT]
    assert env.replica.end_offset == 1


def test_duplicate_is_acknowledged_only_when_the_batch_is_replicated() -> None:
    env = leading()
    env.produce(2, producer=7, sequence=0)
    env.produce(2, producer=7, sequence=0)
    assert (env.appended, env.errors) == ([], [])
    env.write()
    caught_up(env, B, C)
    assert [(each.error, each.base_offset) for each in env.all(ProduceAnswered)] == [(NONE, 0)] * 2
    env.produce(2, producer=7, sequence=0)
    assert env.one(ProduceAnswered).base_offset == 0
    env.produce(1, producer=7, sequence=5)
    assert env.errors == [BrokerError.OUT_OF_ORDER_SEQUENCE_NUMBER]


@pytest.mark.requirement("KV3-09")
def test_consumer_gets_nothing_above_the_high_watermark_and_an_error_beyond_the_end() -> None:
    env = leading()
    env.produce(4)
    env.write()
    for offset in (0, 2, 4):
        env.read(offset)
        served = env.one(ServeFetch)
        assert (served.fetch_offset, served.end_offset, served.high_watermark) == (
            offset,
            offset,
            0,
        )
    env.read(5)
    assert env.one(RefuseFetch).error is BrokerError.OFFSET_OUT_OF_RANGE
    env.fetched_by(B, 4)
    env.fetched_by(C, 2)
    env.read(0)
    assert env.one(ServeFetch).end_offset == 2


@pytest.mark.requirement("KV3-09")
@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [(4, BrokerError.FENCED_LEADER_EPOCH), (6, BrokerError.UNKNOWN_LEADER_EPOCH)],
)
def test_fetch_requires_the_epoch_of_the_leader(leader_epoch: int, error: BrokerError) -> None:
    env = leading()
    env.fetched_by(B, 0, leader_epoch=leader_epoch)
    assert env.one(RefuseFetch).error is error
    assert env.leader.followers[B].end_offset == -1, "the refused fetch changed the state"
    env.read(0, leader_epoch)
    assert env.one(RefuseFetch).error is error


def test_fetch_of_a_broker_without_a_replica_is_rejected() -> None:
    env = leading()
    env.active[9] = 19
    env.fetched_by(9, 0)
    assert env.one(RefuseFetch).error is BrokerError.UNKNOWN_LEADER_EPOCH


LONG = OpenedLog(start_offset=5, end_offset=20, high_watermark=12, epoch_starts=((1, 5), (3, 10)))


@pytest.mark.requirement("KV3-09")
@pytest.mark.parametrize(
    ("offset", "last_epoch", "answer"),
    [
        (20, 3, None),
        (12, 3, None),
        (20, 4, EpochEnd(3, 20)),
        (12, 2, EpochEnd(1, 10)),
        (11, 1, EpochEnd(1, 10)),
        (10, 1, None),
        (22, 3, EpochEnd(3, 20)),
        (8, 0, EpochEnd(0, 5)),
        (4, 1, BrokerError.OFFSET_OUT_OF_RANGE),
        (21, -1, BrokerError.OFFSET_OUT_OF_RANGE),
        (20, 9, BrokerError.OFFSET_OUT_OF_RANGE),
    ],
)
def test_divergence_is_detected_by_epoch_and_offset(
    offset: int, last_epoch: int, answer: EpochEnd | BrokerError | None
) -> None:
    env = leading(opened=LONG)
    env.fetched_by(B, offset, last_epoch)
    if isinstance(answer, EpochEnd):
        assert env.one(ReportDivergence).leader == answer
    elif answer is not None:
        assert env.one(RefuseFetch).error is answer
    else:
        assert env.one(ServeFetch).end_offset == 20
    known = env.leader.followers[B].end_offset
    assert known == (offset if answer is None else -1)


def test_records_of_earlier_leaders_are_committed_with_the_isr() -> None:
    env = leading(opened=LONG)
    env.fetched_by(B, 20)
    env.fetched_by(C, 20)
    assert env.replica.high_watermark == 20
    assert env.replica.latest_offset() == 20


def test_late_writer_report_never_decreases_anything() -> None:
    env = leading()
    env.produce(2)
    env.produce(2)
    env.step(Written(4))
    env.step(Written(2))
    assert env.replica.written_offset == 4
