"""How a classic group gets from one generation to the next."""

from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.group import GroupState
from quorum_node.coordinator.members import Protocol
from quorum_node.coordinator.settings import GroupSettings
from support.group_scene import GROUP, SUBSCRIPTION, GroupScene


def test_a_member_gets_an_id_then_a_generation_then_an_assignment() -> None:
    scene = GroupScene()
    request, member = scene.enter()
    joined = scene.joined(request)
    assert (joined.error, joined.generation, joined.leader_id) == (GroupError.NONE, 1, member)
    assert [each.member_id for each in joined.members] == [member]
    assert scene.group.state is GroupState.COMPLETING_REBALANCE
    synced = scene.synced(scene.sync(member, 1, {member: b"all"}))
    assert (synced.error, synced.assignment, synced.protocol) == (GroupError.NONE, b"all", "range")
    assert scene.group.state is GroupState.STABLE
    assert scene.heartbeat(member, 1) is GroupError.NONE


def test_the_first_rebalance_waits_for_more_members() -> None:
    scene = GroupScene(GroupSettings(initial_rebalance_delay_ms=3000))
    first, _ = scene.enter()
    scene.wait(2000)
    second, _ = scene.enter()
    scene.wait(2000)
    assert first not in scene.answers, "the second one prolonged the wait"
    scene.wait(2000)
    assert scene.joined(first).generation == scene.joined(second).generation == 1


def test_a_second_member_makes_the_first_one_join_again() -> None:
    scene = GroupScene()
    (first,) = scene.stable()
    request, second = scene.enter()
    assert request not in scene.answers
    assert scene.heartbeat(first, 1) is GroupError.REBALANCE_IN_PROGRESS
    again = scene.join(first)
    assert scene.joined(request).generation == scene.joined(again).generation == 2
    assert scene.joined(request).members == (), "the leader alone assigns"
    assert [each.member_id for each in scene.joined(again).members] == [first, second]
    assert scene.heartbeat(first, 1) is GroupError.ILLEGAL_GENERATION


def test_who_does_not_join_again_in_time_is_out() -> None:
    scene = GroupScene()
    first, second = scene.stable(2, rebalance_timeout_ms=5000, session_timeout_ms=30_000)
    request, _ = scene.enter(rebalance_timeout_ms=5000)
    again = scene.join(first, rebalance_timeout_ms=5000)
    scene.wait(6000)
    assert scene.joined(request).generation == scene.joined(again).generation == 3
    assert second not in scene.group.members
    assert scene.heartbeat(second, 3) is GroupError.UNKNOWN_MEMBER_ID


def test_a_session_ends_without_heartbeats_and_others_take_over() -> None:
    scene = GroupScene()
    first, second = scene.stable(2)
    for _ in range(4):
        scene.wait(4000)
        scene.heartbeat(first, 2)
    assert second not in scene.group.members
    assert scene.group.state is GroupState.PREPARING_REBALANCE
    assert scene.joined(scene.join(first)).generation == 3


def test_who_waits_for_the_others_keeps_its_session() -> None:
    scene = GroupScene()
    (first,) = scene.stable(1, session_timeout_ms=30_000)
    request, second = scene.enter(session_timeout_ms=6000)
    scene.wait(20_000)
    assert request not in scene.answers
    scene.join(first, session_timeout_ms=30_000)
    assert scene.joined(request).member_id == second


def test_members_that_do_not_ask_for_their_assignment_are_out() -> None:
    scene = GroupScene()
    first, second = scene.stable(2, rebalance_timeout_ms=8000, session_timeout_ms=60_000)
    for member in (first, second):
        scene.join(
            member,
            rebalance_timeout_ms=8000,
            session_timeout_ms=60_000,
            protocols=(Protocol("range", b"new"),),
        )
    generation = scene.group.generation
    scene.sync(first, generation, {first: b"1", second: b"2"})
    assert scene.group.state is GroupState.STABLE
    scene.wait(9000)
    assert second not in scene.group.members
    assert scene.group.state is GroupState.PREPARING_REBALANCE


def test_assignments_count_once_they_are_stored() -> None:
    scene = GroupScene(stores=False)
    request, member = scene.enter()
    generation = scene.joined(request).generation
    sync = scene.sync(member, generation, {member: b"all"})
    assert sync not in scene.answers
    scene.store()
    assert scene.synced(sync).assignment == b"all"


def test_assignments_that_can_not_be_stored_begin_another_rebalance() -> None:
    scene = GroupScene(stores=False)
    request, member = scene.enter()
    sync = scene.sync(member, scene.joined(request).generation, {member: b"all"})
    scene.store(GroupError.NOT_COORDINATOR)
    assert scene.synced(sync).error is GroupError.NOT_COORDINATOR
    assert scene.group.state is GroupState.PREPARING_REBALANCE
    assert scene.joined(scene.join(member)).generation == 2


def test_assignments_of_a_generation_that_is_over_are_not_given_out() -> None:
    scene = GroupScene(stores=False)
    request, first = scene.enter()
    late = scene.sync(first, scene.joined(request).generation, {first: b"all"})
    second_request, second = scene.enter()
    assert scene.synced(late).error is GroupError.REBALANCE_IN_PROGRESS
    again = scene.join(first)
    assert scene.joined(again).generation == scene.joined(second_request).generation == 2
    scene.store()
    assert scene.group.state is GroupState.COMPLETING_REBALANCE
    assert scene.group.members[first].assignment == b""
    assert second in scene.group.members


def test_the_protocol_that_all_support_and_most_like_is_chosen() -> None:
    scene = GroupScene()
    range_, sticky, other = (Protocol(name, SUBSCRIPTION) for name in ("range", "sticky", "other"))
    (first,) = scene.stable(1, protocols=(other, sticky, range_))
    request, _ = scene.enter(protocols=(sticky, range_))
    again = scene.join(first, protocols=(other, sticky, range_))
    assert scene.joined(again).protocol == scene.joined(request).protocol == "sticky"
    refused = scene.join(protocols=(Protocol("nobody", b""),))
    assert scene.joined(refused).error is GroupError.INCONSISTENT_GROUP_PROTOCOL
    refused = scene.join(protocol_type="connect")
    assert scene.joined(refused).error is GroupError.INCONSISTENT_GROUP_PROTOCOL


def test_when_the_last_one_leaves_the_group_is_empty_and_that_is_stored() -> None:
    scene = GroupScene()
    (member,) = scene.stable()
    assert scene.leave((member, None)) == (GroupError.NONE,)
    assert scene.group.state is GroupState.EMPTY
    assert scene.heartbeat(member, 2) is GroupError.UNKNOWN_MEMBER_ID
    other = scene.taken_over()
    assert (other.group.state, other.group.generation) == (GroupState.EMPTY, 2)
    assert scene.leave((member, None)) == (GroupError.UNKNOWN_MEMBER_ID,)


def test_an_id_that_nobody_came_back_with_is_given_up() -> None:
    scene = GroupScene()
    scene.join()
    assert scene.group.pending
    scene.wait(11_000)
    assert GROUP not in scene.shard.table.groups, "there never was such a group"


def test_the_leader_gets_the_same_answer_when_it_asks_again_before_it_synced() -> None:
    scene = GroupScene()
    request, member = scene.enter()
    assert scene.joined(scene.join(member)) == scene.joined(request)


def test_a_leader_that_joins_again_wants_another_generation_and_a_follower_does_not() -> None:
    scene = GroupScene()
    leader, follower = scene.stable(2)
    generation = scene.group.generation
    assert scene.joined(scene.join(follower)).generation == generation
    request = scene.join(leader)
    assert scene.group.state is GroupState.PREPARING_REBALANCE
    scene.join(follower)
    assert scene.joined(request).generation == generation + 1
