"""How a classic group gets from one generation to the next."""

import pytest

from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.group import GroupState
from quorum_node.coordinator.members import Protocol
from quorum_node.coordinator.settings import GroupSettings
from support.group_env import GROUP, SUBSCRIPTION, GroupEnv


def test_member_gets_an_id_then_a_generation_then_an_assignment() -> None:
    env = GroupEnv()
    request, member = env.enter()
    joined = env.joined(request)
    assert (joined.error, joined.generation, joined.leader_id) == (GroupError.NONE, 1, member)
    assert [each.member_id for each in joined.members] == [member]
    assert env.group.state is GroupState.COMPLETING_REBALANCE
    synced = env.synced(env.sync(member, 1, {member: b"all"}))
    assert (synced.error, synced.assignment, synced.protocol) == (GroupError.NONE, b"all", "range")
    assert env.group.state is GroupState.STABLE
    assert env.heartbeat(member, 1) is GroupError.NONE


def test_initial_rebalance_waits_for_more_members() -> None:
    env = GroupEnv(GroupSettings(initial_rebalance_delay_ms=3000))
    first, _ = env.enter()
    env.wait(2000)
    second, _ = env.enter()
    env.wait(2000)
    assert first not in env.answers, "the second one prolonged the wait"
    env.wait(2000)
    assert env.joined(first).generation == env.joined(second).generation == 1


def test_second_member_triggers_a_rebalance_of_the_first() -> None:
    env = GroupEnv()
    (first,) = env.stable()
    request, second = env.enter()
    assert request not in env.answers
    assert env.heartbeat(first, 1) is GroupError.REBALANCE_IN_PROGRESS
    again = env.join(first)
    assert env.joined(request).generation == env.joined(again).generation == 2
    assert env.joined(request).members == (), "another member assigned"
    assert [each.member_id for each in env.joined(again).members] == [first, second]
    assert env.heartbeat(first, 1) is GroupError.ILLEGAL_GENERATION


def test_member_that_does_not_rejoin_in_time_is_removed() -> None:
    env = GroupEnv()
    first, second = env.stable(2, rebalance_timeout_ms=5000, session_timeout_ms=30_000)
    request, _ = env.enter(rebalance_timeout_ms=5000)
    again = env.join(first, rebalance_timeout_ms=5000)
    env.wait(6000)
    assert env.joined(request).generation == env.joined(again).generation == 3
    assert second not in env.group.members
    assert env.heartbeat(second, 3) is GroupError.UNKNOWN_MEMBER_ID


def test_session_expires_without_heartbeats_and_others_take_over() -> None:
    env = GroupEnv()
    first, second = env.stable(2)
    for _ in range(4):
        env.wait(4000)
        env.heartbeat(first, 2)
    assert second not in env.group.members
    assert env.group.state is GroupState.PREPARING_REBALANCE
    assert env.joined(env.join(first)).generation == 3


def test_member_waiting_for_others_keeps_its_session() -> None:
    env = GroupEnv()
    (first,) = env.stable(1, session_timeout_ms=30_000)
    request, second = env.enter(session_timeout_ms=6000)
    env.wait(20_000)
    assert request not in env.answers
    env.join(first, session_timeout_ms=30_000)
    assert env.joined(request).member_id == second


def test_members_that_do_not_sync_are_removed() -> None:
    env = GroupEnv()
    first, second = env.stable(2, rebalance_timeout_ms=8000, session_timeout_ms=60_000)
    for member in (first, second):
        env.join(
            member,
            rebalance_timeout_ms=8000,
            session_timeout_ms=60_000,
            protocols=(Protocol("range", b"new"),),
        )
    generation = env.group.generation
    env.sync(first, generation, {first: b"1", second: b"2"})
    assert env.group.state is GroupState.STABLE
    env.wait(9000)
    assert second not in env.group.members
    assert env.group.state is GroupState.PREPARING_REBALANCE


def test_assignments_are_effective_after_they_are_stored() -> None:
    env = GroupEnv(stores=False)
    request, member = env.enter()
    generation = env.joined(request).generation
    sync = env.sync(member, generation, {member: b"all"})
    assert sync not in env.answers
    env.store()
    assert env.synced(sync).assignment == b"all"


def test_assignments_that_cannot_be_stored_trigger_another_rebalance() -> None:
    env = GroupEnv(stores=False)
    request, member = env.enter()
    sync = env.sync(member, env.joined(request).generation, {member: b"all"})
    env.store(GroupError.NOT_COORDINATOR)
    assert env.synced(sync).error is GroupError.NOT_COORDINATOR
    assert env.group.state is GroupState.PREPARING_REBALANCE
    assert env.joined(env.join(member)).generation == 2


def test_assignments_of_an_ended_generation_are_not_returned() -> None:
    env = GroupEnv(stores=False)
    request, first = env.enter()
    late = env.sync(first, env.joined(request).generation, {first: b"all"})
    second_request, second = env.enter()
    assert env.synced(late).error is GroupError.REBALANCE_IN_PROGRESS
    again = env.join(first)
    assert env.joined(again).generation == env.joined(second_request).generation == 2
    env.store()
    assert env.group.state is GroupState.COMPLETING_REBALANCE
    assert env.group.members[first].assignment == b""
    assert second in env.group.members


def test_commonly_supported_protocol_with_most_votes_is_selected() -> None:
    env = GroupEnv()
    range_, sticky, other = (Protocol(name, SUBSCRIPTION) for name in ("range", "sticky", "other"))
    (first,) = env.stable(1, protocols=(other, sticky, range_))
    request, _ = env.enter(protocols=(sticky, range_))
    again = env.join(first, protocols=(other, sticky, range_))
    assert env.joined(again).protocol == env.joined(request).protocol == "sticky"
    refused = env.join(protocols=(Protocol("nobody", b""),))
    assert env.joined(refused).error is GroupError.INCONSISTENT_GROUP_PROTOCOL
    refused = env.join(protocol_type="connect")
    assert env.joined(refused).error is GroupError.INCONSISTENT_GROUP_PROTOCOL


def test_group_becomes_empty_with_its_last_member_and_this_is_stored() -> None:
    env = GroupEnv()
    (member,) = env.stable()
    assert env.leave((member, None)) == (GroupError.NONE,)
    assert env.group.state is GroupState.EMPTY
    assert env.heartbeat(member, 2) is GroupError.UNKNOWN_MEMBER_ID
    other = env.taken_over()
    assert (other.group.state, other.group.generation) == (GroupState.EMPTY, 2)
    assert env.leave((member, None)) == (GroupError.UNKNOWN_MEMBER_ID,)


def test_unused_member_id_expires() -> None:
    env = GroupEnv()
    env.join()
    assert env.group.pending
    env.wait(11_000)
    assert GROUP not in env.shard.table.groups, "the group does not exist"


@pytest.mark.parametrize("leaves", [True, False])
def test_unused_member_id_of_a_stable_group_triggers_no_rebalance(leaves: bool) -> None:
    """Its client has only asked for an id: no partition is to be reassigned."""
    env = GroupEnv()
    (member,) = env.stable(session_timeout_ms=60_000)
    unused = env.joined(env.join()).member_id
    if leaves:
        assert env.leave((unused, None)) == (GroupError.NONE,)
    else:
        env.wait(11_000)
    assert not env.group.pending
    assert (env.group.state, env.group.generation) == (GroupState.STABLE, 1)
    assert env.heartbeat(member, 1) is GroupError.NONE


def test_leader_gets_the_same_response_to_a_repeated_join_before_its_sync() -> None:
    env = GroupEnv()
    request, member = env.enter()
    assert env.joined(env.join(member)) == env.joined(request)


def test_rejoining_leader_triggers_a_rebalance_and_a_follower_does_not() -> None:
    env = GroupEnv()
    leader, follower = env.stable(2)
    generation = env.group.generation
    assert env.joined(env.join(follower)).generation == generation
    request = env.join(leader)
    assert env.group.state is GroupState.PREPARING_REBALANCE
    env.join(follower)
    assert env.joined(request).generation == generation + 1


def test_generation_begins_again_after_the_largest_that_a_record_can_have() -> None:
    env = GroupEnv()
    (member,) = env.stable()
    env.group.generation = (1 << 31) - 1
    assert env.joined(env.join(member)).generation == 1


def test_assignments_of_the_last_generation_are_described_during_a_rebalance() -> None:
    env = GroupEnv()
    env.stable()
    env.enter()
    described = env.shard.table.describe(GROUP)
    assert described is not None
    assert described.state == "PreparingRebalance"
    assert sorted((each.metadata, each.assignment) for each in described.members) == [
        (b"", b""),
        (b"", b"0"),
    ]
