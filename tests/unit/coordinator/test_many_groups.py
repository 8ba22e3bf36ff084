"""Work on many groups and offsets is done in short pieces, and what belongs together is stored in one batch."""

from uuid import UUID

from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.group import GroupState
from quorum_node.coordinator.outputs import Append, Output
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
from quorum_node.records.group_records import NO_EPOCH, NO_TIME, GroupRecord, OffsetRecord
from support.group_env import BEGIN_MS, GROUP, TOPIC, TOPIC_ID, GroupEnv

DAY_MS = 86_400_000
MANY = 2_000
AT_ONCE = 500
BATCH_BYTES = 1_000_000
OFFSET = Committed(5, NO_EPOCH, "", BEGIN_MS, NO_TIME, TOPIC_ID)


def commit(env: GroupEnv, *, topic: str = TOPIC, count: int = 1, group: str = GROUP) -> None:
    offsets = {TopicPartition(topic, number): OFFSET for number in range(count)}
    env.ask(CommitOffsets(0, group, "", None, -1, offsets))


def appended(outputs: list[Output]) -> list[Append]:
    return [each for each in outputs if isinstance(each, Append)]


def cleaned(env: GroupEnv) -> list[int]:
    """Numbers of records that were appended in each piece."""
    found = []
    while (outputs := env.shard.clean(env.now)) is not None:
        found.append(sum(len(each.records) for each in appended(outputs)))
        env._take(outputs)
    return found


def test_expired_groups_are_removed_one_by_one() -> None:
    env = GroupEnv()
    for number in range(MANY):
        commit(env, group=f"group-{number}")
    env.ms = 8 * DAY_MS
    counts = cleaned(env)
    assert max(counts) == 2, "the offset and its group"
    assert sum(counts) == 2 * MANY
    assert not env.shard.table.groups
    assert not env.taken_over().shard.table.groups


def test_expired_offsets_of_a_large_group_are_removed_in_pieces() -> None:
    env = GroupEnv()
    commit(env, count=MANY)
    env.ms = 8 * DAY_MS
    counts = cleaned(env)
    assert (max(counts), sum(counts)) == (AT_ONCE + 1, MANY + 1), "the last one with the group"
    assert not env.shard.table.groups
    assert not env.taken_over().shard.table.groups


def test_offset_that_is_committed_between_two_pieces_is_kept() -> None:
    env = GroupEnv()
    commit(env, count=MANY)
    env.ms = 8 * DAY_MS
    env._take(env.shard.clean(env.now) or [])
    env.commit(6, partition=MANY - 1)
    env.commit(7, partition=0)
    cleaned(env)
    for each in (env, env.taken_over()):
        assert (each.offset(0), each.offset(1), each.offset(MANY - 1)) == (7, None, 6)


def test_offsets_of_a_deleted_topic_are_removed_in_pieces() -> None:
    env = GroupEnv()
    commit(env, count=MANY)
    for number in range(MANY):
        commit(env, group=f"group-{number}")
    commit(env, group="another", topic="kept")
    assert env.shard.topics_deleted({TOPIC: TOPIC_ID}) == []
    counts = cleaned(env)
    assert (max(counts), sum(counts)) == (AT_ONCE, 2 * MANY)
    assert env.shard.table.offsets.groups() == ("another",)


def test_offsets_of_a_missing_topic_are_removed_later_if_the_tombstones_can_not_be_stored() -> None:
    """As when too few replicas are in sync. If the topic is created again, a consumer would resume at an offset of the old one."""
    env = GroupEnv()
    commit(env)
    env.shard.topics_missing(lambda name, topic_id: topic_id != TOPIC_ID)
    env.stores = False
    env._take(env.shard.clean(env.now) or [])
    env.store(GroupError.COORDINATOR_NOT_AVAILABLE)
    env.stores = True
    cleaned(env)
    assert env.offset() == OFFSET.offset
    env.ms += env.settings.retention_check_ms
    cleaned(env)
    assert env.offset() is None


def test_missing_topics_are_looked_for_once_at_a_time() -> None:
    """It may take longer than the interval of removals: works that wait would become more and more."""
    env, asked = GroupEnv(), list[str]()
    commit(env)

    def exists(name: str, topic_id: UUID | None) -> bool:
        asked.append(name)
        return True

    for _ in range(3):
        env.shard.topics_missing(exists)
    cleaned(env)
    assert asked == [TOPIC]
    env.ms += env.settings.retention_check_ms
    cleaned(env)
    assert asked == [TOPIC, TOPIC]


def test_timers_of_one_group_after_the_other_expire() -> None:
    env = GroupEnv()
    for number in range(20):
        request = env.join(group_id=f"group-{number}")
        env.join(env.joined(request).member_id, group_id=f"group-{number}")
    env.ms += 400_000
    emptied = []
    while (outputs := env.shard.expire(env.now)) is not None:
        env._take(outputs)
        states = [each.state for each in env.shard.table.groups.values()]
        emptied.append(states.count(GroupState.EMPTY))
    assert emptied == list(range(1, 21))


def test_group_is_deleted_with_its_offsets_in_one_batch() -> None:
    """As by a stock broker: after a crash, there is all or nothing of it."""
    env = GroupEnv()
    commit(env, count=MANY)
    env.stores = False
    deletion = env.ask(DeleteGroup(0, GROUP))
    (append,) = env.appends
    *offsets, group = append.records
    assert len(offsets) == MANY
    assert isinstance(group, GroupRecord)
    env.store()
    assert env.answers[deletion] == Done(GroupError.NONE)
    assert not env.taken_over().shard.table.groups


def test_offsets_are_deleted_in_one_batch() -> None:
    env = GroupEnv()
    commit(env, count=MANY)
    env.stores = False
    gone = tuple(TopicPartition(TOPIC, number) for number in range(MANY))
    request = env.ask(DeleteOffsets(0, GROUP, gone))
    (append,) = env.appends
    assert len(append.records) == MANY
    env.store()
    answer = env.answers[request]
    assert isinstance(answer, PartitionsDone)
    assert answer.error is GroupError.NONE
    assert env.offset() is None


def test_group_that_is_too_large_for_one_batch_is_deleted_in_pieces() -> None:
    env = GroupEnv()
    topic = "x" * 249
    commit(env, topic=topic, count=5_000)
    env.stores = False
    deletion = env.ask(DeleteGroup(0, GROUP))
    assert len(env.appends) == 1
    env.commit(8)
    env.work()
    for append in env.appends:
        assert sum(len(str(record.key)) for record in append.records) < BATCH_BYTES
    offsets = [record for append in env.appends for record in append.records]
    assert sum(isinstance(record, OffsetRecord) for record in offsets) == 5_001
    while env.appends:
        env.store()
    assert env.answers[deletion] == Done(GroupError.NONE)
    for each in (env, env.taken_over()):
        assert not each.shard.table.offsets.of(GROUP).keys() - {TopicPartition(TOPIC, 0)}
        assert each.offset() == 8
        assert GROUP in each.shard.table.groups, "the new offset can be seen, deleted, and expires"


def test_group_with_offsets_in_an_open_transaction_exists_after_a_take_over() -> None:
    env = GroupEnv()
    env.commit(5, transaction=Transaction(9, 0))
    other = env.taken_over()
    other.shard.marker_written(9, commit=True)
    assert other.offset() == 5
    assert other.shard.table.describe(GROUP) is not None
    assert other.delete() is GroupError.NONE


def test_members_that_leave_together_cause_one_rebalance() -> None:
    env = GroupEnv()
    first, second, third = env.stable(3)
    generation = env.group.generation
    rejoined = env.join(first)
    also = env.join(second)
    env.leave((third, None), (second, None))
    assert env.joined(rejoined).generation == generation + 1
    assert [each.member_id for each in env.joined(rejoined).members] == [first]
    assert env.joined(also).error is GroupError.UNKNOWN_MEMBER_ID
