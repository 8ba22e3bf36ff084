"""What a leader appends, commits and serves."""

import pytest

from quorum_node.broker.epoch_history import EpochEnd
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import SettingsChanged, Written
from quorum_node.broker.log_shape import OpenedLog
from quorum_node.broker.outputs import ProduceAnswered, RefuseFetch, ServeFetch, TellDivergence
from quorum_node.broker.settings import PartitionSettings
from support.replica_scene import ME, B, C, ReplicaScene, leading

NONE = BrokerError.NONE
TWO = PartitionSettings(min_insync_replicas=2, replica_lag_time_max_ms=1000.0)


def caught_up(scene: ReplicaScene, *followers: int) -> None:
    for follower in followers:
        scene.fetched_by(follower, scene.replica.end_offset)


def test_acks_all_waits_for_the_whole_isr_and_for_the_own_writer() -> None:
    scene = leading()
    scene.produce(3)
    assert [(each.base_offset, each.leader_epoch) for each in scene.appended] == [(0, 5)]
    caught_up(scene, B, C)
    assert scene.errors == []
    assert scene.replica.high_watermark == 0
    scene.write()
    assert scene.one(ProduceAnswered) == ProduceAnswered(1, NONE, 0)
    assert scene.replica.high_watermark == 3


@pytest.mark.requirement("KV3-09")
def test_the_high_watermark_is_the_smallest_end_in_the_isr_and_never_goes_back() -> None:
    scene = leading()
    scene.produce(2)
    scene.produce(2)
    scene.produce(2)
    scene.write()
    scene.fetched_by(B, 6)
    assert scene.replica.high_watermark == 0, "C has not fetched yet"
    scene.fetched_by(C, 4)
    assert scene.replica.high_watermark == 4
    scene.fetched_by(C, 2, broker_epoch=99)
    assert scene.replica.high_watermark == 4


def test_acks_1_waits_for_the_writer_alone_and_acks_0_too() -> None:
    scene = leading()
    scene.produce(acks=1)
    scene.produce(acks=0)
    scene.produce(acks=2)
    assert scene.errors == [BrokerError.INVALID_REQUIRED_ACKS]
    scene.write()
    assert scene.errors == [NONE, NONE]
    assert scene.replica.high_watermark == 0


def test_too_few_in_sync_take_no_acks_all() -> None:
    scene = leading(isr=(ME,), settings=TWO)
    scene.produce()
    assert scene.errors == [BrokerError.NOT_ENOUGH_REPLICAS]
    assert scene.replica.end_offset == 0, "nothing is written"
    scene.produce(acks=1)
    scene.write()
    assert scene.replica.high_watermark == 0, (
        "no consumer sees what min.insync.replicas does not cover"
    )
    scene.told(ME, 5, 10, isr=(ME, B))
    assert scene.replica.high_watermark == 0, "B has not fetched it"
    scene.fetched_by(B, 1)
    assert scene.replica.high_watermark == 1


def test_a_partition_with_fewer_replicas_than_min_insync_replicas_needs_all_of_them() -> None:
    scene = leading(settings=PartitionSettings(min_insync_replicas=5))
    scene.produce()
    assert scene.appended
    scene.told(ME, 5, 10, isr=(ME, B))
    scene.produce()
    assert scene.errors == [BrokerError.NOT_ENOUGH_REPLICAS]


def test_another_min_insync_replicas_counts_at_once() -> None:
    scene = leading(isr=(ME,), settings=TWO)
    scene.produce(acks=1)
    scene.write()
    scene.step(SettingsChanged(PartitionSettings(min_insync_replicas=1)))
    assert scene.replica.high_watermark == 1


def test_a_request_that_takes_too_long_is_answered_and_its_batch_stays() -> None:
    scene = leading()
    scene.produce(producer=7, sequence=0)
    scene.wait(499)
    assert scene.errors == []
    scene.wait(1)
    assert scene.errors == [BrokerError.REQUEST_TIMED_OUT]
    assert scene.replica.end_offset == 1


def test_a_duplicate_is_answered_only_when_the_batch_is_replicated() -> None:
    scene = leading()
    scene.produce(2, producer=7, sequence=0)
    scene.produce(2, producer=7, sequence=0)
    assert (scene.appended, scene.errors) == ([], [])
    scene.write()
    caught_up(scene, B, C)
    assert [(each.error, each.base_offset) for each in scene.all(ProduceAnswered)] == [
        (NONE, 0)
    ] * 2
    scene.produce(2, producer=7, sequence=0)
    assert scene.one(ProduceAnswered).base_offset == 0
    scene.produce(1, producer=7, sequence=5)
    assert scene.errors == [BrokerError.OUT_OF_ORDER_SEQUENCE_NUMBER]


@pytest.mark.requirement("KV3-09")
def test_a_consumer_gets_nothing_between_high_watermark_and_end_and_an_error_behind_it() -> None:
    scene = leading()
    scene.produce(4)
    scene.write()
    for offset in (0, 2, 4):
        scene.read(offset)
        served = scene.one(ServeFetch)
        assert (served.fetch_offset, served.end_offset, served.high_watermark) == (
            offset,
            offset,
            0,
        )
    scene.read(5)
    assert scene.one(RefuseFetch).error is BrokerError.OFFSET_OUT_OF_RANGE
    scene.fetched_by(B, 4)
    scene.fetched_by(C, 2)
    scene.read(0)
    assert scene.one(ServeFetch).end_offset == 2


@pytest.mark.requirement("KV3-09")
@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [(4, BrokerError.FENCED_LEADER_EPOCH), (6, BrokerError.UNKNOWN_LEADER_EPOCH)],
)
def test_a_fetch_names_the_leaders_epoch(leader_epoch: int, error: BrokerError) -> None:
    scene = leading()
    scene.fetched_by(B, 0, leader_epoch=leader_epoch)
    assert scene.one(RefuseFetch).error is error
    assert scene.leader.followers[B].end_offset == -1, "nothing is learned from it"
    scene.read(0, leader_epoch)
    assert scene.one(RefuseFetch).error is error


def test_a_fetch_of_a_broker_that_is_no_replica_is_refused() -> None:
    scene = leading()
    scene.active[9] = 19
    scene.fetched_by(9, 0)
    assert scene.one(RefuseFetch).error is BrokerError.UNKNOWN_LEADER_EPOCH


def test_a_late_fetch_of_an_earlier_run_of_a_follower_is_refused() -> None:
    scene = leading()
    scene.produce(2)
    scene.fetched_by(B, 0, broker_epoch=20)
    scene.fetched_by(B, 2, broker_epoch=12)
    assert scene.one(RefuseFetch).error is BrokerError.NOT_LEADER_OR_FOLLOWER
    assert scene.leader.followers[B].end_offset == 0


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
def test_divergence_is_found_by_epoch_and_offset(
    offset: int, last_epoch: int, answer: EpochEnd | BrokerError | None
) -> None:
    scene = leading(opened=LONG)
    scene.fetched_by(B, offset, last_epoch)
    if isinstance(answer, EpochEnd):
        assert scene.one(TellDivergence).leader == answer
    elif answer is not None:
        assert scene.one(RefuseFetch).error is answer
    else:
        assert scene.one(ServeFetch).end_offset == 20
    known = scene.leader.followers[B].end_offset
    assert known == (offset if answer is None else -1)


def test_what_earlier_leaders_left_is_committed_with_the_isr() -> None:
    scene = leading(opened=LONG)
    scene.fetched_by(B, 20)
    scene.fetched_by(C, 20)
    assert scene.replica.high_watermark == 20
    assert scene.replica.latest_offset() == 20


def test_a_writer_that_reports_late_never_lowers_anything() -> None:
    scene = leading()
    scene.produce(2)
    scene.produce(2)
    scene.step(Written(4))
    scene.step(Written(2))
    assert scene.replica.written_offset == 4
