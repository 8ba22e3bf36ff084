"""What a follower appends, truncates and stores."""

from dataclasses import replace

import pytest

from quorum_node.broker.batch import Batch
from quorum_node.broker.epoch_history import EpochEnd
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import (
    BatchesFetched,
    FetchRefused,
    LogDiverged,
    RangeAnswered,
    Truncated,
)
from quorum_node.broker.log_shape import OpenedLog
from quorum_node.broker.outputs import (
    AppendBatches,
    AskRange,
    DeleteBefore,
    RestartLog,
    SaveEpochs,
    StopFetching,
    TruncateLog,
)
from quorum_node.broker.producers import Duplicate, ProducerStates
from support.replica_env import ME, ReplicaEnv, batch, following

WITH_LOG = OpenedLog(end_offset=20, high_watermark=12, epoch_starts=((1, 0), (3, 10)))


def offset_of(env: ReplicaEnv) -> int | None:
    position = env.replica.fetch_position
    return None if position is None else position.fetch_offset


@pytest.mark.requirement("KV3-09")
def test_fetched_batches_are_appended_unchanged_and_acknowledged_when_written() -> None:
    env = following()
    env.receive(batch(0, 2, 3), batch(2, 1, 5), high_watermark=1)
    assert env.appended == [batch(0, 2, 3), batch(2, 1, 5)]
    assert env.one(SaveEpochs).starts == ((3, 0), (5, 2))
    assert env.replica.high_watermark == 1
    assert offset_of(env) is None
    env.write()
    assert offset_of(env) == 3


@pytest.mark.requirement("KV3-09")
def test_high_watermark_is_limited_to_the_log_end() -> None:
    env = following()
    env.receive(batch(0, 2, 5), high_watermark=9)
    assert env.replica.high_watermark == 2
    env.write()
    env.receive(high_watermark=1)
    assert env.replica.high_watermark == 2


def test_batches_of_an_epoch_above_the_requested_one_are_ignored() -> None:
    env = following()
    env.receive(batch(0, 1, 5), batch(1, 1, 6), batch(2, 1, 5))
    assert env.appended == [batch(0, 1, 5)]


@pytest.mark.parametrize(
    "other",
    [
        {"leader_epoch": 4},
        {"leader_epoch": 6},
        {"fetch_offset": 19},
        {"fetch_offset": 21},
        {"last_fetched_epoch": 2},
        {"leader_id": 3},
    ],
)
def test_response_to_another_fetch_is_ignored(other: dict[str, int]) -> None:
    env = following(WITH_LOG)
    requested = replace(env.position, **other)
    assert env.step(BatchesFetched(requested, (batch(20, 1, 5),), 20, 0)) == []
    assert env.step(LogDiverged(requested, EpochEnd(1, 5))) == []
    assert env.step(FetchRefused(requested, BrokerError.FENCED_LEADER_EPOCH)) == []
    assert offset_of(env) == 20


def test_divergence_reported_for_records_that_were_replaced_is_ignored() -> None:
    """A second response to a fetch before the truncation arrives when the log has the same end again."""
    env = following(WITH_LOG)
    late = LogDiverged(env.position, EpochEnd(1, 10))
    env.step(late)
    env.step(Truncated(()))
    env.receive(batch(10, 10, 5), high_watermark=20)
    env.write()
    assert offset_of(env) == 20
    assert env.step(late) == []
    assert env.replica.end_offset == 20


@pytest.mark.requirement("KV3-09")
def test_diverging_log_is_truncated_by_epoch_and_producers_are_rebuilt() -> None:
    env = following(WITH_LOG)
    env.step(LogDiverged(env.position, EpochEnd(3, 15)))
    assert env.one(TruncateLog).end_offset == 15
    assert offset_of(env) is None
    left = ProducerStates()
    left.append(batch(4, 2, 1, 7, 0))
    env.step(Truncated(left.snapshot()))
    assert offset_of(env) == 15
    env.told(ME, 6, 10)
    assert env.leader.state.producers.check(batch(0, 2, -1, 7, 0)) == Duplicate(4, 6)


@pytest.mark.requirement("KV3-09")
def test_epoch_unknown_to_the_leader_requires_another_request() -> None:
    env = following(WITH_LOG)
    env.step(LogDiverged(env.position, EpochEnd(2, 14)))
    assert env.one(TruncateLog).end_offset == 10
    env.step(Truncated(()))
    position = env.replica.fetch_position
    assert position is not None
    assert (position.fetch_offset, position.last_fetched_epoch) == (10, 1)


def test_epoch_without_records_is_dropped_without_truncation() -> None:
    env = ReplicaEnv(WITH_LOG)
    env.told(ME, 5, 9)
    env.told(2, 6, 10)
    position = env.replica.fetch_position
    assert position is not None
    assert (position.fetch_offset, position.last_fetched_epoch) == (20, 5)
    env.step(LogDiverged(env.position, EpochEnd(3, 20)))
    assert env.all(TruncateLog) == []
    assert env.one(SaveEpochs).starts == ((1, 0), (3, 10))
    position = env.replica.fetch_position
    assert position is not None
    assert position.last_fetched_epoch == 3


@pytest.mark.requirement("KV3-09")
def test_committed_records_survive_a_leader_change_before_their_high_watermark_is_known() -> None:
    """KIP-101's first example: cutting to the high watermark would drop what is committed."""
    env = following(WITH_LOG)
    env.told(3, 6, 10)
    assert env.all(TruncateLog) == []
    assert offset_of(env) == 20


@pytest.mark.requirement("KV3-09")
def test_log_without_any_epoch_is_truncated_to_its_high_watermark() -> None:
    env = following(OpenedLog(end_offset=20, high_watermark=12))
    assert env.one(TruncateLog).end_offset == 12
    env.step(Truncated(()))
    assert offset_of(env) == 12


def test_fetch_from_a_newer_leader_epoch_waits_for_metadata() -> None:
    env = following(WITH_LOG)
    env.step(FetchRefused(env.position, BrokerError.UNKNOWN_LEADER_EPOCH))
    assert offset_of(env) == 20
    env.step(FetchRefused(env.position, BrokerError.FENCED_LEADER_EPOCH))
    assert env.all(StopFetching)
    assert offset_of(env) is None
    env.told(2, 6, 10)
    assert offset_of(env) == 20


@pytest.mark.parametrize(
    ("start", "end", "cut_to", "restart_at", "then"),
    [(0, 15, 15, None, 15), (30, 40, None, 30, 30), (5, 25, None, None, 20)],
)
def test_offset_out_of_range(
    start: int, end: int, cut_to: int | None, restart_at: int | None, then: int
) -> None:
    env = following(WITH_LOG)
    env.step(FetchRefused(env.position, BrokerError.OFFSET_OUT_OF_RANGE))
    assert env.one(AskRange).leader_epoch == 5
    assert env.replica.asks_range
    assert offset_of(env) is None
    assert env.step(RangeAnswered(4, start, end)) == []
    env.step(RangeAnswered(5, start, end))
    assert [each.end_offset for each in env.all(TruncateLog)] == ([cut_to] if cut_to else [])
    restarts = [each.start_offset for each in env.all(RestartLog)]
    assert restarts == ([restart_at] if restart_at else [])
    if cut_to or restart_at:
        env.step(Truncated(()))
    assert offset_of(env) == then


def test_records_deleted_by_the_leader_are_deleted() -> None:
    env = following(WITH_LOG)
    env.step(BatchesFetched(env.position, (), 20, 11))
    assert env.replica.start_offset == 11
    assert env.one(SaveEpochs).starts == ((3, 11),)


@pytest.mark.requirement("KV3-09")
def test_log_start_within_a_leader_batch_fetches_the_whole_batch() -> None:
    """DeleteRecords moved the leader's start to 15, within its batch from 10 to 20."""
    env = following()
    env.step(FetchRefused(env.position, BrokerError.OFFSET_OUT_OF_RANGE))
    env.step(RangeAnswered(5, 15, 30))
    env.step(Truncated(()))
    batches = (batch(10, 10, 4, producer=7, sequence=3), batch(20, 10, 5))
    env.step(BatchesFetched(env.position, batches, 30, 15))
    assert [each.start_offset for each in env.all(RestartLog)] == [10]
    assert offset_of(env) is None
    env.step(Truncated(()))
    assert env.appended == list(batches)
    assert env.one(DeleteBefore).start_offset == 15
    assert (env.replica.start_offset, env.replica.high_watermark) == (15, 30)
    assert [each.producer_id for each in env.replica.producers()] == [7]
    env.write()
    assert offset_of(env) == 30


@pytest.mark.requirement("KV3-09")
def test_leader_with_a_log_end_before_the_own_start_is_followed_from_its_end() -> None:
    """After an unclean election: otherwise the replica would wait until the leader has as many records."""
    env = following(OpenedLog(100, 120, 120, ((3, 100),)))
    env.step(FetchRefused(env.position, BrokerError.OFFSET_OUT_OF_RANGE))
    env.step(RangeAnswered(5, 0, 50))
    assert env.one(RestartLog).start_offset == 50
    env.step(Truncated(()))
    assert (env.replica.start_offset, env.replica.high_watermark) == (50, 50)
    assert offset_of(env) == 50


@pytest.mark.parametrize("damaged", [batch(20, 1, 2), batch(19, 2, 5)])
def test_batch_with_a_descending_epoch_or_offset_is_ignored(damaged: Batch) -> None:
    env = following(WITH_LOG)
    env.receive(damaged)
    assert env.all(AppendBatches) == []
    assert offset_of(env) == 20
    env.receive(batch(20, 1, 5), damaged._replace(base_offset=21, leader_epoch=4))
    assert env.appended == [batch(20, 1, 5)]
