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
from support.replica_scene import ME, B, C, ReplicaScene, following, leading

WITH_LOG = OpenedLog(end_offset=20, high_watermark=15, epoch_starts=((1, 0), (3, 10)))


@pytest.mark.requirement("KV3-08")
def test_a_leader_enters_its_epoch_before_the_first_append() -> None:
    scene = ReplicaScene(WITH_LOG)
    scene.told(ME, 5, 9)
    assert isinstance(scene.replica.role, Leader)
    assert scene.one(SaveEpochs).starts == ((1, 0), (3, 10), (5, 20))
    assert scene.leader.epoch_start_offset == 20
    assert scene.replica.high_watermark == 15
    assert scene.replica.latest_offset() is BrokerError.OFFSET_NOT_AVAILABLE


@pytest.mark.requirement("KV3-08")
def test_a_follower_fetches_from_where_it_is_with_its_last_epoch() -> None:
    scene = following(WITH_LOG)
    assert scene.one(StartFetching) == StartFetching(B, 5)
    position = scene.replica.fetch_position
    assert position is not None
    assert (position.fetch_offset, position.last_fetched_epoch) == (20, 3)
    assert (position.leader_id, position.leader_epoch) == (B, 5)


@pytest.mark.requirement("KV3-08")
def test_a_follower_without_a_leader_waits() -> None:
    scene = following()
    scene.told(-1, 6, 10)
    assert scene.all(StopFetching)
    assert scene.replica.fetch_position is None
    scene.told(C, 7, 11)
    assert scene.one(StartFetching) == StartFetching(C, 7)


@pytest.mark.requirement("KV3-08")
@pytest.mark.parametrize(("leader", "leader_epoch"), [(B, 4), (C, 3), (-1, 4)])
def test_older_metadata_changes_nothing(leader: int, leader_epoch: int) -> None:
    scene = leading()
    role = scene.replica.role
    assert scene.told(leader, leader_epoch, 8) == []
    assert scene.replica.role is role
    assert (scene.replica.leader_epoch, scene.replica.partition_epoch) == (5, 9)


@pytest.mark.requirement("KV3-08")
def test_the_same_metadata_again_changes_nothing() -> None:
    scene = leading()
    scene.fetched_by(B, 0)
    role, progress = scene.replica.role, scene.leader.followers[B]
    assert scene.told(ME, 5, 9) == []
    assert scene.replica.role is role
    assert scene.leader.followers[B] is progress


@pytest.mark.requirement("KV3-08")
def test_a_change_within_the_leader_epoch_keeps_what_is_known_of_followers_and_fetches() -> None:
    scene = leading()
    scene.fetched_by(B, 0)
    progress = scene.leader.followers[B]
    scene.told(ME, 5, 10, isr=(ME, B))
    assert scene.leader.followers[B] is progress
    assert scene.leader.in_sync.committed == {ME, B}
    other = following()
    assert other.told(B, 5, 10, isr=(B, ME)) == []


@pytest.mark.requirement("KV3-08")
def test_a_new_leader_epoch_of_the_same_leader_begins_anew() -> None:
    scene = leading()
    scene.fetched_by(B, 0)
    scene.produce()
    scene.told(ME, 6, 10)
    assert scene.errors == [BrokerError.NOT_LEADER_OR_FOLLOWER]
    assert scene.leader.followers[B].end_offset == -1


@pytest.mark.requirement("KV3-08")
def test_who_waits_at_a_deposed_leader_is_sent_away() -> None:
    scene = leading()
    scene.produce()
    scene.produce(acks=1)
    scene.told(B, 6, 10)
    assert scene.errors == [BrokerError.NOT_LEADER_OR_FOLLOWER] * 2
    assert isinstance(scene.replica.role, Follower)
    assert scene.replica.fetch_position is None, "the writer is not done yet"
    scene.write()
    assert scene.replica.fetch_position is not None


@pytest.mark.requirement("KV3-08")
def test_a_follower_that_is_elected_fetches_no_more() -> None:
    scene = following()
    scene.told(ME, 6, 10)
    assert scene.all(StopFetching)
    assert scene.replica.fetch_position is None


@pytest.mark.requirement("KV3-08")
@pytest.mark.parametrize("delete", [False, True])
def test_a_stopped_replica_does_nothing_any_more(delete: bool) -> None:
    scene = leading()
    scene.produce()
    scene.step(ReplicaStopped(delete))
    assert scene.errors == [BrokerError.NOT_LEADER_OR_FOLLOWER]
    assert bool(scene.all(DeleteLog)) is delete
    gone = BrokerError.UNKNOWN_TOPIC_OR_PARTITION if delete else BrokerError.NOT_LEADER_OR_FOLLOWER
    scene.produce()
    assert scene.errors == [gone]
    assert scene.told(ME, 7, 12) == []
    other = following()
    other.step(ReplicaStopped(delete))
    assert other.all(StopFetching)


def test_a_replica_whose_disk_failed_says_so_and_takes_no_part() -> None:
    scene = leading()
    scene.produce()
    scene.step(StorageFailed())
    assert scene.errors == [BrokerError.KAFKA_STORAGE_ERROR]
    scene.read(0)
    assert scene.one(RefuseFetch).error is BrokerError.KAFKA_STORAGE_ERROR
    scene.told(ME, 6, 10)
    assert scene.replica.role is None


@pytest.mark.requirement("KV3-07")
def test_nobody_is_served_before_metadata_says_who_leads() -> None:
    scene = ReplicaScene()
    scene.produce()
    assert scene.errors == [BrokerError.NOT_LEADER_OR_FOLLOWER]
    scene.read(0)
    assert scene.one(RefuseFetch).error is BrokerError.NOT_LEADER_OR_FOLLOWER
