"""Static members (KIP-345): a process that is started again takes its place without a rebalance."""

from dataclasses import replace

from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.group import GroupState
from support.group_env import GroupEnv


def static_group(env: GroupEnv) -> tuple[str, str]:
    """(leader, follower), with instance ids `a` and `b`."""
    first = env.joined(env.join(instance_id="a")).member_id
    request = env.join(instance_id="b")
    env.join(first, instance_id="a")
    second = env.joined(request).member_id
    generation = env.group.generation
    env.sync(first, generation, {first: b"1", second: b"2"}, instance_id="a")
    env.sync(second, generation, instance_id="b")
    assert env.group.state is GroupState.STABLE
    return first, second


def test_new_process_of_an_instance_keeps_the_generation_and_fences_the_old_one() -> None:
    env = GroupEnv()
    _, old = static_group(env)
    generation = env.group.generation
    joined = env.joined(env.join(instance_id="b"))
    assert (joined.error, joined.generation) == (GroupError.NONE, generation)
    assert joined.member_id != old
    synced = env.synced(env.sync(joined.member_id, generation, instance_id="b"))
    assert synced.assignment == b"2"
    assert env.heartbeat(old, generation, "b") is GroupError.FENCED_INSTANCE_ID
    refused = env.join(old, instance_id="b")
    assert env.joined(refused).error is GroupError.FENCED_INSTANCE_ID
    assert env.committed(env.commit(1, old, generation, instance="b")) is (
        GroupError.FENCED_INSTANCE_ID
    )
    other = env.taken_over()
    assert other.group.static["b"] == joined.member_id


def test_returning_leader_gets_skip_assignment() -> None:
    env = GroupEnv()
    old, _ = static_group(env)
    joined = env.joined(env.join(instance_id="a"))
    assert joined.skip_assignment
    assert joined.leader_id == joined.member_id
    assert len(joined.members) == 2
    older = env.joined(env.join(instance_id="a", may_skip=False))
    assert not older.skip_assignment
    assert older.leader_id not in (older.member_id, old), "only the leader assigns"
    assert older.members == ()


def test_new_member_id_is_effective_after_it_is_stored() -> None:
    env = GroupEnv()
    _, old = static_group(env)
    env.stores = False
    request = env.join(instance_id="b")
    assert request not in env.answers
    env.store(GroupError.NOT_COORDINATOR)
    assert env.joined(request).error is GroupError.NOT_COORDINATOR
    assert env.group.static["b"] == old
    assert env.heartbeat(old, env.group.generation, "b") is GroupError.NONE


def test_absent_static_member_keeps_its_place_until_its_session_expires() -> None:
    env = GroupEnv(replace(GroupEnv().settings))
    leader, away = static_group(env)
    request = env.join(leader, instance_id="a", rebalance_timeout_ms=3000)
    env.group.members[away].rebalance_timeout_ms = 3000
    env.group.join_due_ms = env.ms + 3000
    env.wait(4000)
    assert env.joined(request).generation == 3
    assert away in env.group.members
    env.sync(leader, 3, {leader: b"1", away: b"2"}, instance_id="a")
    for _ in range(4):
        env.wait(4000)
        env.heartbeat(leader, env.group.generation, "a")
    assert away not in env.group.members


def test_administrator_removes_a_static_member_by_instance_id() -> None:
    env = GroupEnv()
    _, gone = static_group(env)
    assert env.leave(("", "b"), ("", "c")) == (GroupError.NONE, GroupError.UNKNOWN_MEMBER_ID)
    assert gone not in env.group.members
