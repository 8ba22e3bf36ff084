"""Static members (KIP-345): a process that is started again takes its place without a rebalance."""

from dataclasses import replace

from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.group import GroupState
from support.group_scene import GroupScene


def static_group(scene: GroupScene) -> tuple[str, str]:
    """(leader, follower), with instance ids `a` and `b`."""
    first = scene.joined(scene.join(instance_id="a")).member_id
    request = scene.join(instance_id="b")
    scene.join(first, instance_id="a")
    second = scene.joined(request).member_id
    generation = scene.group.generation
    scene.sync(first, generation, {first: b"1", second: b"2"}, instance_id="a")
    scene.sync(second, generation, instance_id="b")
    assert scene.group.state is GroupState.STABLE
    return first, second


def test_a_new_process_of_an_instance_keeps_the_generation_and_fences_the_old_one() -> None:
    scene = GroupScene()
    _, old = static_group(scene)
    generation = scene.group.generation
    joined = scene.joined(scene.join(instance_id="b"))
    assert (joined.error, joined.generation) == (GroupError.NONE, generation)
    assert joined.member_id != old
    synced = scene.synced(scene.sync(joined.member_id, generation, instance_id="b"))
    assert synced.assignment == b"2"
    assert scene.heartbeat(old, generation, "b") is GroupError.FENCED_INSTANCE_ID
    refused = scene.join(old, instance_id="b")
    assert scene.joined(refused).error is GroupError.FENCED_INSTANCE_ID
    assert scene.committed(scene.commit(1, old, generation, instance="b")) is (
        GroupError.FENCED_INSTANCE_ID
    )
    other = scene.taken_over()
    assert other.group.static["b"] == joined.member_id


def test_a_leader_that_comes_back_is_told_to_leave_assignments_alone() -> None:
    scene = GroupScene()
    old, _ = static_group(scene)
    joined = scene.joined(scene.join(instance_id="a"))
    assert joined.skip_assignment
    assert joined.leader_id == joined.member_id
    assert len(joined.members) == 2
    older = scene.joined(scene.join(instance_id="a", may_skip=False))
    assert not older.skip_assignment
    assert older.leader_id not in (older.member_id, old), "it must not hand in assignments"
    assert older.members == ()


def test_the_new_id_counts_once_it_is_stored() -> None:
    scene = GroupScene()
    _, old = static_group(scene)
    scene.stores = False
    request = scene.join(instance_id="b")
    assert request not in scene.answers
    scene.store(GroupError.NOT_COORDINATOR)
    assert scene.joined(request).error is GroupError.NOT_COORDINATOR
    assert scene.group.static["b"] == old
    assert scene.heartbeat(old, scene.group.generation, "b") is GroupError.NONE


def test_a_static_member_that_is_away_keeps_its_place_until_its_session_is_over() -> None:
    scene = GroupScene(replace(GroupScene().settings))
    leader, away = static_group(scene)
    request = scene.join(leader, instance_id="a", rebalance_timeout_ms=3000)
    scene.group.members[away].rebalance_timeout_ms = 3000
    scene.group.join_due_ms = scene.ms + 3000
    scene.wait(4000)
    assert scene.joined(request).generation == 3
    assert away in scene.group.members
    scene.sync(leader, 3, {leader: b"1", away: b"2"}, instance_id="a")
    for _ in range(4):
        scene.wait(4000)
        scene.heartbeat(leader, scene.group.generation, "a")
    assert away not in scene.group.members


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    scene = GroupScene()
    _, gone = static_group(scene)
    assert scene.leave(("", "b"), ("", "c")) == (GroupError.NONE, GroupError.UNKNOWN_MEMBER_ID)
    assert gone not in scene.group.members
