"""Where the logs of all live replicas begin: what DeleteRecords waits for."""

from quorum_node.broker.events import FollowerFetched, StartOffsetMoved
from quorum_node.broker.outputs import ReadableMoved, SaveEpochs
from support.replica_env import ME, B, C, ReplicaEnv, leading


def fetched(env: ReplicaEnv, follower: int, log_start_offset: int) -> list[object]:
    event = FollowerFetched(7, follower, -1, 5, 4, 5, log_start_offset=log_start_offset)
    return list(env.replica.step(event, 0.0))


def replicated() -> ReplicaEnv:
    env = leading()
    env.produce(4)
    env.write()
    for follower in (B, C):
        env.fetched_by(follower, 4)
    return env


def test_low_watermark_is_the_smallest_log_start_of_the_leader_and_live_followers() -> None:
    env = replicated()
    assert env.replica.low_watermark == -1, "its log start offset is unknown"
    fetched(env, B, 0)
    fetched(env, C, 0)
    assert env.replica.low_watermark == 0
    assert SaveEpochs(((5, 3),)) in env.replica.step(StartOffsetMoved(3), 0.0)
    assert env.replica.low_watermark == 0
    fetched(env, B, 3)
    assert env.replica.low_watermark == 0
    fetched(env, C, 2)
    assert env.replica.low_watermark == 2
    fetched(env, C, 3)
    assert env.replica.low_watermark == 3


def test_waiters_are_notified_when_a_follower_reports_another_log_start() -> None:
    env = replicated()
    assert ReadableMoved() in fetched(env, B, 0)
    assert ReadableMoved() not in fetched(env, B, 0)
    assert ReadableMoved() in fetched(env, B, 1)


def test_follower_of_a_dead_broker_does_not_hold_back_the_low_watermark() -> None:
    env = replicated()
    fetched(env, C, 0)
    del env.active[C]
    env.told(ME, 5, 10)
    fetched(env, B, 0)
    env.replica.step(StartOffsetMoved(4), 0.0)
    fetched(env, B, 4)
    assert env.replica.low_watermark == 4


def test_only_a_leader_knows_the_low_watermark() -> None:
    env = replicated()
    env.told(B, 6, 10)
    assert env.replica.low_watermark is None


def test_leader_without_live_followers_counts_alone() -> None:
    env = replicated()
    del env.active[B], env.active[C]
    env.told(ME, 5, 10)
    env.replica.step(StartOffsetMoved(2), 0.0)
    assert env.replica.low_watermark == 2
