"""When a replica becomes leader or follower, stops, or stays what it is."""

import pytest

from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import ReplicaStopped, StorageFailed
from quorum_node.broker.follower import Follower
from quorum_node.broker.leader import Leader
from quorum_node.broker.log_shape import OpenedLog
from quorum_node.broker.outputs import (
    DeleteLog,
    RefuseFetch,
    SaveEpochs,
    StartFetching,
    StopFetching,
)
from support.replica_env import ME, B, C, ReplicaEnv, following, leading

WITH_LOG = OpenedLog(end_offset=20, high_watermark=15, epoch_starts=((1, 0), (3, 10)))


@pytest.mark.requirement("KV3-08")
def test_leader_starts_its_epoch_before_the_first_append() -> None:
    env = ReplicaEnv(WITH_LOG)
    env.told(ME, 5, 9)
    assert isinstance(env.replica.role, Leader)
    assert env.one(SaveEpochs).starts == ((1, 0), (3, 10), (5, 20))
    assert env.leader.epoch_start_offset == 20
    assert env.replica.high_watermark == 15
    assert env.replica.latest_offset() is BrokerError.OFFSET_NOT_AVAILABLE


@pytest.mark.requirement("KV3-08")
def test_follower_fetches_from_its_log_end_with_its_last_epoch() -> None:
    env = following(WITH_LOG)
    assert env.one(StartFetching) == StartFetching(B, 5)
    position = env.replica.fetch_position
    assert position is not None
    assert (position.fetch_offset, position.last_fetched_epoch) == (20, 3)
    assert (position.leader_id, position.leader_epoch) == (B, 5)


@pytest.mark.requirement("KV3-08")
def test_follower_without_a_leader_waits() -> None:
    env = following()
    env.told(-1, 6, 10)
    assert env.all(StopFetching)
    assert env.replica.fetch_position is None
    env.told(C, 7, 11)
    assert env.one(StartFetching) == StartFetching(C, 7)


@pytest.mark.requirement("KV3-08")
@pytest.mark.parametrize(("leader", "leader_epoch"), [(B, 4), (C, 3), (-1, 4)])
def test_older_metadata_changes_nothing(leader: int, leader_epoch: int) -> None:
    env = leading()
    role = env.replica.role
    assert env.told(leader, leader_epoch, 8) == []
    assert env.replica.role is role
    assert (env.replica.leader_epoch, env.replica.partition_epoch) == (5, 9)


@pytest.mark.requirement("KV3-08")
def test_repeated_metadata_changes_nothing() -> None:
    env = leading()
    env.fetched_by(B, 0)
    role, progress = env.replica.role, env.leader.followers[B]
    assert env.told(ME, 5, 9) == []
    assert env.replica.role is role
    assert env.leader.followers[B] is progress


@pytest.mark.requirement("KV3-08")
def test_change_within_the_leader_epoch_keeps_follower_and_fetch_state() -> None:
    env = leading()
    env.fetched_by(B, 0)
    progress = env.leader.followers[B]
    env.told(ME, 5, 10, isr=(ME, B))
    assert env.leader.followers[B] is progress
    assert env.leader.in_sync.committed == {ME, B}
    other = following()
    assert other.told(B, 5, 10, isr=(B, ME)) == []


@pytest.mark.requirement("KV3-08")
def test_new_leader_epoch_of_the_same_leader_resets_its_state() -> None:
    env = leading()
    env.fetched_by(B, 0)
    env.produce()
    env.told(ME, 6, 10)
    assert env.leader.followers[B].end_offset == -1
    assert env.leader.epoch_start_offset == 1


def test_requests_go_on_waiting_when_the_same_leader_gets_a_new_epoch() -> None:
    env = leading()
    env.produce()
    env.produce(acks=1)
    env.told(ME, 6, 10)
    assert env.errors == []
    env.write()
    assert env.errors == [BrokerError.NONE], "the one with acks=1"
    env.fetched_by(B, 2)
    assert env.errors == []
    env.fetched_by(C, 2)
    assert env.errors == [BrokerError.NONE]


def test_progress_of_an_earlier_epoch_acknowledges_nothing_in_a_new_one() -> None:
    """Another leader, which this one has not noticed, may have truncated the followers meanwhile."""
    env = leading()
    env.produce()
    env.fetched_by(B, 1)
    env.fetched_by(C, 1)
    env.told(ME, 7, 12)
    env.write()
    assert env.errors == []
    env.fetched_by(B, 1)
    env.fetched_by(C, 1)
    assert env.errors == [BrokerError.NONE]


def test_timeouts_of_requests_go_on_in_a_new_epoch_of_the_same_leader() -> None:
    env = leading()
    env.produce()
    env.wait(300)
    env.told(ME, 6, 10)
    env.wait(199)
    assert env.errors == []
    env.wait(1)
    assert env.errors == [BrokerError.REQUEST_TIMED_OUT]


@pytest.mark.requirement("KV3-08")
def test_requests_waiting_at_a_deposed_leader_are_answered_with_an_error() -> None:
    env = leading()
    env.produce()
    env.produce(acks=1)
    env.told(B, 6, 10)
    assert env.errors == [BrokerError.NOT_LEADER_OR_FOLLOWER] * 2
    assert isinstance(env.replica.role, Follower)
    assert env.replica.fetch_position is None, "the writer is not done yet"
    env.write()
    assert env.replica.fetch_position is not None


@pytest.mark.requirement("KV3-08")
def test_elected_follower_stops_fetching() -> None:
    env = following()
    env.told(ME, 6, 10)
    assert env.all(StopFetching)
    assert env.replica.fetch_position is None


@pytest.mark.requirement("KV3-08")
@pytest.mark.parametrize("delete", [False, True])
def test_stopped_replica_does_nothing(delete: bool) -> None:
    env = leading()
    env.produce()
    env.step(ReplicaStopped(delete))
    assert env.errors == [BrokerError.NOT_LEADER_OR_FOLLOWER]
    assert bool(env.all(DeleteLog)) is delete
    gone = BrokerError.UNKNOWN_TOPIC_OR_PARTITION if delete else BrokerError.NOT_LEADER_OR_FOLLOWER
    env.produce()
    assert env.errors == [gone]
    assert env.told(ME, 7, 12) == []
    other = following()
    other.step(ReplicaStopped(delete))
    assert other.all(StopFetching)


def test_replica_with_a_failed_disk_returns_an_error_and_does_not_participate() -> None:
    env = leading()
    env.produce()
    env.step(StorageFailed())
    assert env.errors == [BrokerError.KAFKA_STORAGE_ERROR]
    env.read(0)
    assert env.one(RefuseFetch).error is BrokerError.KAFKA_STORAGE_ERROR
    env.told(ME, 6, 10)
    assert env.replica.role is None


@pytest.mark.requirement("KV3-07")
def test_no_request_is_served_before_metadata_names_the_leader() -> None:
    env = ReplicaEnv()
    env.produce()
    assert env.errors == [BrokerError.NOT_LEADER_OR_FOLLOWER]
    env.read(0)
    assert env.one(RefuseFetch).error is BrokerError.NOT_LEADER_OR_FOLLOWER
