"""Where the logs of all live replicas begin: what DeleteRecords waits for."""

from quorum_node.broker.events import FollowerFetched, StartOffsetMoved
from quorum_node.broker.outputs import ReadableMoved, SaveEpochs
from support.replica_scene import ME, B, C, ReplicaScene, leading


def fetched(scene: ReplicaScene, follower: int, log_start_offset: int) -> list[object]:
    event = FollowerFetched(7, follower, -1, 5, 4, 5, log_start_offset=log_start_offset)
    return list(scene.replica.step(event, 0.0))


def replicated() -> ReplicaScene:
    scene = leading()
    scene.produce(4)
    scene.write()
    for follower in (B, C):
        scene.fetched_by(follower, 4)
    return scene


def test_it_is_the_smallest_start_of_the_leader_and_its_live_followers() -> None:
    scene = replicated()
    assert scene.replica.low_watermark == -1, "nobody has said where its log begins"
    fetched(scene, B, 0)
    fetched(scene, C, 0)
    assert scene.replica.low_watermark == 0
    assert SaveEpochs(((5, 3),)) in scene.replica.step(StartOffsetMoved(3), 0.0)
    assert scene.replica.low_watermark == 0
    fetched(scene, B, 3)
    assert scene.replica.low_watermark == 0
    fetched(scene, C, 2)
    assert scene.replica.low_watermark == 2
    fetched(scene, C, 3)
    assert scene.replica.low_watermark == 3


def test_who_waits_for_it_is_told_when_a_follower_says_another_start() -> None:
    scene = replicated()
    assert ReadableMoved() in fetched(scene, B, 0)
    assert ReadableMoved() not in fetched(scene, B, 0)
    assert ReadableMoved() in fetched(scene, B, 1)


def test_a_follower_whose_broker_is_gone_holds_nobody_up() -> None:
    scene = replicated()
    fetched(scene, C, 0)
    del scene.active[C]
    scene.told(ME, 5, 10)
    fetched(scene, B, 0)
    scene.replica.step(StartOffsetMoved(4), 0.0)
    fetched(scene, B, 4)
    assert scene.replica.low_watermark == 4


def test_only_a_leader_knows_it() -> None:
    scene = replicated()
    scene.told(B, 6, 10)
    assert scene.replica.low_watermark is None


def test_a_leader_without_live_followers_counts_alone() -> None:
    scene = replicated()
    del scene.active[B], scene.active[C]
    scene.told(ME, 5, 10)
    scene.replica.step(StartOffsetMoved(2), 0.0)
    assert scene.replica.low_watermark == 2
