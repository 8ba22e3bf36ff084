"""Offsets of groups: who may commit, when they are visible, and when they expire."""

from dataclasses import replace
from uuid import UUID

from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.group import GroupState
from quorum_node.coordinator.members import Protocol
from quorum_node.coordinator.requests import (
    CommitOffsets,
    Committed,
    DeleteGroup,
    DeleteOffsets,
    Done,
    PartitionsDone,
    TopicPartition,
    Transaction,
)
from quorum_node.coordinator.settings import GroupSettings
from quorum_node.records.group_records import NO_EPOCH, NO_TIME
from support.group_env import BEGIN_MS, GROUP, TOPIC, TOPIC_ID, GroupEnv

DAY_MS = 86_400_000


def test_only_members_of_the_generation_commit() -> None:
    env = GroupEnv()
    (member,) = env.stable()
    assert env.committed(env.commit(5, member, 1)) is GroupError.NONE
    assert env.offset() == 5
    for code, requested in (
        (GroupError.ILLEGAL_GENERATION, env.commit(6, member, 2)),
        (GroupError.UNKNOWN_MEMBER_ID, env.commit(6, "stranger", 1)),
        (GroupError.UNKNOWN_MEMBER_ID, env.commit(6)),
        (GroupError.ILLEGAL_GENERATION, env.commit(6, "x", 1, group="no such group")),
    ):
        assert env.committed(requested) is code
    assert env.offset() == 5


def test_consumer_with_manual_assignment_commits_while_the_group_is_empty() -> None:
    env = GroupEnv()
    assert env.committed(env.commit(7)) is GroupError.NONE
    assert env.offset() == 7
    assert env.taken_over().offset() == 7


def test_generation_without_assignments_rejects_offsets_and_an_ending_one_accepts_them() -> None:
    env = GroupEnv()
    request, member = env.enter()
    generation = env.joined(request).generation
    assert env.committed(env.commit(1, member, generation)) is GroupError.REBALANCE_IN_PROGRESS
    env.sync(member, generation, {member: b""})
    env.enter()
    assert env.group.state is GroupState.PREPARING_REBALANCE
    assert env.committed(env.commit(1, member, generation)) is GroupError.NONE


def test_member_of_a_group_that_does_not_exist_gets_an_error_that_its_version_knows() -> None:
    env = GroupEnv()
    of_member = replace(committed(TOPIC_ID), member_id="m", generation=1)
    for knows, code in (
        (False, GroupError.ILLEGAL_GENERATION),
        (True, GroupError.GROUP_ID_NOT_FOUND),
    ):
        assert env.committed(env.ask(replace(of_member, knows_missing=knows))) is code
    assert not env.shard.table.groups


def test_offset_is_visible_after_it_is_stored() -> None:
    env = GroupEnv(stores=False)
    request = env.commit(7)
    assert request not in env.answers
    assert env.offset() is None
    env.store()
    assert env.committed(request) is GroupError.NONE
    assert env.offset() == 7
    lost = env.commit(8)
    env.store(GroupError.COORDINATOR_NOT_AVAILABLE)
    assert env.committed(lost) is GroupError.COORDINATOR_NOT_AVAILABLE
    assert env.offset() == 7
    large = env.commit(9)
    env.store(GroupError.UNKNOWN_SERVER_ERROR)
    assert env.committed(large) is GroupError.INVALID_COMMIT_OFFSET_SIZE


def test_offset_metadata_is_limited() -> None:
    env = GroupEnv()
    assert env.committed(env.commit(1, metadata="x" * 4096)) is GroupError.NONE
    too_large = env.commit(2, metadata="é" * 4096)
    assert env.committed(too_large) is GroupError.OFFSET_METADATA_TOO_LARGE
    assert env.offset() == 1


def test_transactional_offsets_are_visible_after_the_commit() -> None:
    env = GroupEnv()
    env.commit(1)
    transaction = Transaction(9, 0)
    assert env.committed(env.commit(5, transaction=transaction)) is GroupError.NONE
    partition = TopicPartition(TOPIC, 0)
    assert env.offset() == 1
    assert env.shard.table.offsets.unstable(GROUP) == {partition}
    other = env.taken_over()
    assert other.offset() == 1
    assert other.shard.table.offsets.unstable(GROUP) == {partition}
    env.shard.marker_written(9, commit=False)
    assert env.offset() == 1
    other.shard.marker_written(9, commit=True)
    assert other.offset() == 5
    assert not other.shard.table.offsets.unstable(GROUP)


def test_offsets_expire_after_the_group_was_empty_for_the_retention_time() -> None:
    env = GroupEnv(GroupSettings(initial_rebalance_delay_ms=0))
    (member,) = env.stable(1, session_timeout_ms=1_800_000)
    env.commit(5, member, 1)
    for _ in range(6 * 24 * 9):  # nine days with heartbeats
        env.ms += 600_000
        env.heartbeat(member, 1)
        env.wait(0.1)
    assert env.offset() == 5, "it reads the topic"
    env.leave((member, None))
    env.wait(6.9 * DAY_MS)
    assert env.offset() == 5
    env.wait(0.2 * DAY_MS)
    assert env.offset() is None
    assert GROUP not in env.shard.table.groups
    assert GROUP not in env.taken_over().shard.table.groups, "tombstones are in the log"


def test_offsets_without_a_group_expire_individually() -> None:
    env = GroupEnv()
    env.wait(700_000)
    env.commit(1, partition=0)
    env.wait(4 * DAY_MS)
    env.commit(2, partition=1)
    env.wait(4 * DAY_MS)
    assert (env.offset(0), env.offset(1)) == (None, 2)


def test_group_with_members_is_not_deleted() -> None:
    env = GroupEnv()
    (member,) = env.stable()
    env.commit(5, member, 1)
    assert env.delete() is GroupError.NON_EMPTY_GROUP
    env.leave((member, None))
    assert env.delete() is GroupError.NONE
    assert env.delete() is GroupError.GROUP_ID_NOT_FOUND
    other = env.taken_over()
    assert other.offset() is None
    assert GROUP not in other.shard.table.groups


def test_group_state_is_removed_after_its_tombstone_is_stored() -> None:
    env = GroupEnv()
    env.commit(5)
    env.stores = False
    env.ask(DeleteOffsets(0, GROUP, (TopicPartition(TOPIC, 0),)))
    assert env.offset() == 5
    env.store(GroupError.COORDINATOR_NOT_AVAILABLE)
    assert env.offset() == 5


def test_commit_after_a_tombstone_is_kept() -> None:
    env = GroupEnv()
    env.commit(5)
    env.stores = False
    env.ask(DeleteOffsets(0, GROUP, (TopicPartition(TOPIC, 0),)))
    env.commit(6)
    env.store()
    env.store()
    assert env.offset() == 6
    assert env.taken_over().offset() == 6


def test_newest_commit_counts_whether_in_a_transaction_or_not() -> None:
    """Compaction keeps the newest record only, so that the time of the marker must not decide."""
    env = GroupEnv()
    env.commit(1, transaction=Transaction(9, 0))
    env.commit(2)
    env.commit(3, transaction=Transaction(10, 0), partition=1)
    env.commit(4, transaction=Transaction(11, 0), partition=1)
    for each in (env, env.taken_over()):
        for producer_id in (9, 11, 10):
            each.shard.marker_written(producer_id, commit=True)
        assert (each.offset(0), each.offset(1)) == (2, 4)
        assert not each.shard.table.offsets.unstable(GROUP)


def test_offset_does_not_expire_while_a_newer_one_is_being_stored() -> None:
    """Its tombstone would come after the newer commit in the log, and remove what was acknowledged."""
    env = GroupEnv()
    env.commit(5)
    env.wait(7 * DAY_MS - 1_000)
    env.stores = False
    request = env.commit(6)
    env.wait(700_000)
    env.store()
    assert env.committed(request) is GroupError.NONE
    env.stores = True
    while env.appends:
        env.store()
    assert env.offset() == 6
    assert env.taken_over().offset() == 6


def test_group_is_kept_while_its_first_offset_is_being_stored() -> None:
    env = GroupEnv(stores=False)
    env.commit(6)
    env.wait(1_400_000)
    env.store()
    assert env.offset() == 6
    assert GROUP in env.shard.table.groups, "nobody could see, delete or expire the offset"


def test_group_that_came_back_while_it_was_being_deleted_keeps_its_generation() -> None:
    env = GroupEnv()
    (member,) = env.stable()
    env.commit(5, member, 1)
    env.leave((member, None))
    env.stores = False
    deletion = env.ask(DeleteGroup(0, GROUP))
    request, member = env.enter()
    assert env.joined(request).generation == 3
    env.sync(member, 3, {member: b"all"})
    while env.appends:
        env.store()
    assert env.answers[deletion] == Done(GroupError.NON_EMPTY_GROUP)
    assert env.heartbeat(member, 3) is GroupError.NONE
    assert env.taken_over().heartbeat(member, 3) is GroupError.NONE


def test_offsets_of_topics_subscribed_by_a_member_are_not_deleted() -> None:
    env = GroupEnv()
    (member,) = env.stable()
    env.commit(5, member, 1)
    requested = DeleteOffsets(0, GROUP, (TopicPartition(TOPIC, 0), TopicPartition("other", 0)))
    answer = env.answers[env.ask(requested)]
    assert isinstance(answer, PartitionsDone)
    assert list(answer.errors.values()) == [GroupError.GROUP_SUBSCRIBED_TO_TOPIC, GroupError.NONE]
    assert env.offset() == 5


def committed(topic_id: UUID) -> CommitOffsets:
    """Of partition 0."""
    offset = Committed(7, NO_EPOCH, "", BEGIN_MS, NO_TIME, topic_id)
    return CommitOffsets(0, GROUP, "", None, -1, {TopicPartition(TOPIC, 0): offset})


def test_offsets_of_a_deleted_topic_are_removed() -> None:
    env = GroupEnv()
    env.commit(5)
    env.ask(committed(TOPIC_ID))
    env.commit(6, partition=1)
    env.delete_topic()
    assert (env.offset(0), env.offset(1)) == (None, None)
    assert env.taken_over().offset(0) is None


def test_offset_of_a_later_topic_of_the_same_name_is_kept() -> None:
    """The offsets of a deleted topic are not removed at once, if there are many."""
    env = GroupEnv()
    env.ask(committed(UUID(int=99)))
    env.delete_topic()
    assert env.offset() == 7


def test_offset_that_is_being_stored_when_its_topic_is_deleted_does_not_stay() -> None:
    env = GroupEnv(stores=False)
    env.ask(committed(TOPIC_ID))
    env.delete_topic()
    while env.appends:
        env.store()
    assert env.offset() is None
    assert env.taken_over().offset() is None


def test_group_size_is_limited_in_members_and_bytes() -> None:
    settings = replace(
        GroupSettings(initial_rebalance_delay_ms=0), max_size=2, max_members_bytes=100
    )
    env = GroupEnv(settings)
    first, second = env.stable(2)
    refused = env.join()
    assert env.joined(refused).error is GroupError.GROUP_MAX_SIZE_REACHED
    assert env.joined(env.join(second)).error is GroupError.NONE
    large = env.join(first, protocols=(Protocol("range", b"x" * 101),))
    assert env.joined(large).error is GroupError.GROUP_MAX_SIZE_REACHED


def test_group_size_is_limited_in_names_of_protocols() -> None:
    """Each join compares the names of all members, so a few members with thousands of names would hold up the broker."""
    env = GroupEnv(replace(GroupSettings(initial_rebalance_delay_ms=0), max_members_bytes=10_000))
    first, _ = env.stable(2)
    for many in (
        tuple(Protocol(f"p{n}", b"") for n in range(600)),
        (Protocol("range", b""), *(Protocol("", b"") for _ in range(700))),
    ):
        for member_id in (first, ""):
            refused = env.join(member_id, protocols=many)
            assert env.joined(refused).error is GroupError.GROUP_MAX_SIZE_REACHED


def test_session_timeouts_and_names_are_validated() -> None:
    env = GroupEnv()
    for fields, code in (
        ({"session_timeout_ms": 5_999}, GroupError.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, GroupError.INVALID_SESSION_TIMEOUT),
        ({"group_id": ""}, GroupError.INVALID_GROUP_ID),
        ({"protocols": ()}, GroupError.INCONSISTENT_GROUP_PROTOCOL),
    ):
        assert env.joined(env.join(**fields)).error is code  # type: ignore[arg-type]
    assert env.joined(env.join("stranger")).error is GroupError.UNKNOWN_MEMBER_ID
    assert not env.shard.table.groups


def test_deleted_group_leaves_no_offset_that_was_being_stored_or_in_a_transaction() -> None:
    env = GroupEnv()
    env.commit(1)
    env.commit(2, partition=1, transaction=Transaction(9, 0))
    env.stores = False
    env.commit(3, partition=2)
    deletion = env.ask(DeleteGroup(0, GROUP))
    while env.appends:
        env.store()
    assert env.answers[deletion] == Done(GroupError.NONE)
    for each in (env, env.taken_over()):
        each.shard.marker_written(9, commit=True)
        assert not each.shard.table.offsets.of(GROUP)
        assert GROUP not in each.shard.table.groups
