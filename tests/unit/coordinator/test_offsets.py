"""Offsets of groups: who may commit, when they count, and when they are forgotten."""

from dataclasses import replace

from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.group import GroupState
from quorum_node.coordinator.requests import (
    DeleteOffsets,
    PartitionsDone,
    TopicPartition,
    Transaction,
)
from quorum_node.coordinator.settings import GroupSettings
from support.group_scene import GROUP, TOPIC, GroupScene

DAY_MS = 86_400_000


def test_members_of_the_generation_commit_and_nobody_else() -> None:
    scene = GroupScene()
    (member,) = scene.stable()
    assert scene.committed(scene.commit(5, member, 1)) is GroupError.NONE
    assert scene.offset() == 5
    for code, asked in (
        (GroupError.ILLEGAL_GENERATION, scene.commit(6, member, 2)),
        (GroupError.UNKNOWN_MEMBER_ID, scene.commit(6, "stranger", 1)),
        (GroupError.UNKNOWN_MEMBER_ID, scene.commit(6)),
        (GroupError.ILLEGAL_GENERATION, scene.commit(6, "x", 1, group="no such group")),
    ):
        assert scene.committed(asked) is code
    assert scene.offset() == 5


def test_who_assigns_for_itself_commits_while_there_are_no_members() -> None:
    scene = GroupScene()
    assert scene.committed(scene.commit(7)) is GroupError.NONE
    assert scene.offset() == 7
    assert scene.taken_over().offset() == 7


def test_a_generation_without_assignments_takes_no_offsets_and_one_that_ends_does() -> None:
    scene = GroupScene()
    request, member = scene.enter()
    generation = scene.joined(request).generation
    assert scene.committed(scene.commit(1, member, generation)) is GroupError.REBALANCE_IN_PROGRESS
    scene.sync(member, generation, {member: b""})
    scene.enter()
    assert scene.group.state is GroupState.PREPARING_REBALANCE
    assert scene.committed(scene.commit(1, member, generation)) is GroupError.NONE


def test_an_offset_counts_once_it_is_stored() -> None:
    scene = GroupScene(stores=False)
    request = scene.commit(7)
    assert request not in scene.answers
    assert scene.offset() is None
    scene.store()
    assert scene.committed(request) is GroupError.NONE
    assert scene.offset() == 7
    lost = scene.commit(8)
    scene.store(GroupError.COORDINATOR_NOT_AVAILABLE)
    assert scene.committed(lost) is GroupError.COORDINATOR_NOT_AVAILABLE
    assert scene.offset() == 7
    large = scene.commit(9)
    scene.store(GroupError.UNKNOWN_SERVER_ERROR)
    assert scene.committed(large) is GroupError.INVALID_COMMIT_OFFSET_SIZE


def test_metadata_of_an_offset_is_limited() -> None:
    scene = GroupScene()
    assert scene.committed(scene.commit(1, metadata="x" * 4096)) is GroupError.NONE
    too_large = scene.commit(2, metadata="é" * 4096)
    assert scene.committed(too_large) is GroupError.OFFSET_METADATA_TOO_LARGE
    assert scene.offset() == 1


def test_offsets_of_a_transaction_count_when_it_is_committed() -> None:
    scene = GroupScene()
    scene.commit(1)
    transaction = Transaction(9, 0)
    assert scene.committed(scene.commit(5, transaction=transaction)) is GroupError.NONE
    partition = TopicPartition(TOPIC, 0)
    assert scene.offset() == 1
    assert scene.shard.table.offsets.unstable(GROUP) == {partition}
    other = scene.taken_over()
    assert other.offset() == 1
    assert other.shard.table.offsets.unstable(GROUP) == {partition}
    scene.shard.marker_written(9, commit=False)
    assert scene.offset() == 1
    other.shard.marker_written(9, commit=True)
    assert other.offset() == 5
    assert not other.shard.table.offsets.unstable(GROUP)


def test_offsets_expire_after_the_group_was_empty_long_enough() -> None:
    scene = GroupScene(GroupSettings(initial_rebalance_delay_ms=0))
    (member,) = scene.stable(1, session_timeout_ms=1_800_000)
    scene.commit(5, member, 1)
    for _ in range(6 * 24 * 9):  # nine days with heartbeats
        scene.ms += 600_000
        scene.heartbeat(member, 1)
        scene.wait(0.1)
    assert scene.offset() == 5, "it reads the topic"
    scene.leave((member, None))
    scene.wait(6.9 * DAY_MS)
    assert scene.offset() == 5
    scene.wait(0.2 * DAY_MS)
    assert scene.offset() is None
    assert GROUP not in scene.shard.table.groups
    assert GROUP not in scene.taken_over().shard.table.groups, "tombstones are in the log"


def test_offsets_without_a_group_expire_by_their_own_time() -> None:
    scene = GroupScene()
    scene.wait(700_000)
    scene.commit(1, partition=0)
    scene.wait(4 * DAY_MS)
    scene.commit(2, partition=1)
    scene.wait(4 * DAY_MS)
    assert (scene.offset(0), scene.offset(1)) == (None, 2)


def test_a_group_with_members_is_not_deleted() -> None:
    scene = GroupScene()
    (member,) = scene.stable()
    scene.commit(5, member, 1)
    assert scene.delete() is GroupError.NON_EMPTY_GROUP
    scene.leave((member, None))
    assert scene.delete() is GroupError.NONE
    assert scene.delete() is GroupError.GROUP_ID_NOT_FOUND
    other = scene.taken_over()
    assert other.offset() is None
    assert GROUP not in other.shard.table.groups


def test_nothing_is_forgotten_before_its_tombstone_is_stored() -> None:
    scene = GroupScene()
    scene.commit(5)
    scene.stores = False
    scene.ask(DeleteOffsets(0, GROUP, (TopicPartition(TOPIC, 0),)))
    assert scene.offset() == 5
    scene.store(GroupError.COORDINATOR_NOT_AVAILABLE)
    assert scene.offset() == 5


def test_a_commit_behind_a_tombstone_stays() -> None:
    scene = GroupScene()
    scene.commit(5)
    scene.stores = False
    scene.ask(DeleteOffsets(0, GROUP, (TopicPartition(TOPIC, 0),)))
    scene.commit(6)
    scene.store()
    scene.store()
    assert scene.offset() == 6
    assert scene.taken_over().offset() == 6


def test_offsets_of_topics_that_a_member_reads_are_not_deleted() -> None:
    scene = GroupScene()
    (member,) = scene.stable()
    scene.commit(5, member, 1)
    asked = DeleteOffsets(0, GROUP, (TopicPartition(TOPIC, 0), TopicPartition("other", 0)))
    answer = scene.answers[scene.ask(asked)]
    assert isinstance(answer, PartitionsDone)
    assert list(answer.errors.values()) == [GroupError.GROUP_SUBSCRIBED_TO_TOPIC, GroupError.NONE]
    assert scene.offset() == 5


def test_offsets_of_a_deleted_topic_go() -> None:
    scene = GroupScene()
    scene.commit(5)
    for append in scene.shard.topics_deleted([TOPIC, "other"]):
        scene.appends.append(append)  # type: ignore[arg-type]
    scene.store()
    assert scene.offset() is None


def test_a_group_is_full_by_members_and_by_bytes() -> None:
    settings = replace(
        GroupSettings(initial_rebalance_delay_ms=0), max_size=2, max_members_bytes=100
    )
    scene = GroupScene(settings)
    first, second = scene.stable(2)
    refused = scene.join()
    assert scene.joined(refused).error is GroupError.GROUP_MAX_SIZE_REACHED
    assert scene.joined(scene.join(second)).error is GroupError.NONE
    from quorum_node.coordinator.members import Protocol

    large = scene.join(first, protocols=(Protocol("range", b"x" * 101),))
    assert scene.joined(large).error is GroupError.GROUP_MAX_SIZE_REACHED


def test_session_timeouts_and_names_are_checked() -> None:
    scene = GroupScene()
    for fields, code in (
        ({"session_timeout_ms": 5_999}, GroupError.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, GroupError.INVALID_SESSION_TIMEOUT),
        ({"group_id": ""}, GroupError.INVALID_GROUP_ID),
        ({"protocols": ()}, GroupError.INCONSISTENT_GROUP_PROTOCOL),
    ):
        assert scene.joined(scene.join(**fields)).error is code  # type: ignore[arg-type]
    assert scene.joined(scene.join("stranger")).error is GroupError.UNKNOWN_MEMBER_ID
    assert not scene.shard.table.groups
