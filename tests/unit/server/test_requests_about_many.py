"""Requests about many partitions, groups or members: their work is done in pieces, so that others are served meanwhile."""

import asyncio
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.coordinator.requests import DeleteGroup, TopicPartition
from quorum_node.protocol import broker_apis
from quorum_node.protocol.alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from quorum_node.protocol.api import Api
from quorum_node.protocol.delete_groups import DeleteGroupsRequest
from quorum_node.protocol.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from quorum_node.protocol.describe_groups import DescribeGroupsRequest
from quorum_node.protocol.describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from quorum_node.protocol.describe_producers import (
    DESCRIBE_PRODUCERS,
    DescribeProducersRequest,
    DescribeProducersTopic,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.find_coordinator import FindCoordinatorRequest
from quorum_node.protocol.join_group import JoinGroupProtocol, JoinGroupRequest
from quorum_node.protocol.leave_group import LeaveGroupRequest, LeavingMember
from quorum_node.protocol.list_groups import ListGroupsRequest
from quorum_node.protocol.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from quorum_node.protocol.offset_commit import (
    CommittedPartition,
    CommittedTopic,
    OffsetCommitRequest,
)
from quorum_node.protocol.offset_delete import (
    OffsetDeletePartition,
    OffsetDeleteRequest,
    OffsetDeleteTopic,
)
from quorum_node.protocol.offset_fetch import FetchedGroup, FetchedTopic, OffsetFetchRequest
from quorum_node.protocol.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from quorum_node.protocol.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from quorum_node.protocol.sync_group import SyncGroupAssignment, SyncGroupRequest
from quorum_node.protocol.write_txn_markers import (
    WRITE_TXN_MARKERS,
    MarkedTopic,
    TransactionMarker,
    WriteTxnMarkersRequest,
)
from quorum_node.schema.schema import Message
from support.coordinating_broker import MANY, CoordinatingBroker

pytestmark = pytest.mark.virtual_time
NUMBERS = tuple(range(MANY))
NAMES = tuple(f"g{each}" for each in NUMBERS)


def deleted_records(*numbers: int) -> DeleteRecordsRequest:
    asked = tuple(DeleteRecordsPartition(partition_index=each, offset=0) for each in numbers)
    topics = (DeleteRecordsTopic(name="t", partitions=asked),)
    return DeleteRecordsRequest(topics=topics, timeout_ms=0)


def commit(
    topic_id: UUID, group_id: str = "g", numbers: tuple[int, ...] = NUMBERS
) -> OffsetCommitRequest:
    asked = tuple(
        CommittedPartition(partition_index=each, committed_offset=5, committed_metadata="m")
        for each in numbers
    )
    topics = (CommittedTopic(topic_id=topic_id, partitions=asked),)
    return OffsetCommitRequest(group_id=group_id, member_id="", topics=topics)


def deleted_offsets(topic: str) -> OffsetDeleteRequest:
    asked = tuple(OffsetDeletePartition(partition_index=each) for each in NUMBERS)
    topics = (OffsetDeleteTopic(name=topic, partitions=asked),)
    return OffsetDeleteRequest(group_id="g", topics=topics)


LISTED = ListOffsetsRequest(
    replica_id=-1,
    topics=(
        ListOffsetsTopic(
            name="t",
            partitions=tuple(
                ListOffsetsPartition(partition_index=each, timestamp=LATEST_TIMESTAMP)
                for each in NUMBERS
            ),
        ),
    ),
)
EPOCHS = OffsetForLeaderEpochRequest(
    topics=(
        OffsetForLeaderTopic(
            topic="t",
            partitions=(OffsetForLeaderPartition(partition=0, leader_epoch=0),) * MANY,
        ),
    )
)
LOG_DIRS = DescribeLogDirsRequest(
    topics=tuple(DescribableLogDirTopic(topic=each, partitions=(0,)) for each in NAMES)
)
PRODUCERS = DescribeProducersRequest(
    topics=(DescribeProducersTopic(name="t", partition_indexes=NUMBERS),)
)
MOVED = AlterReplicaLogDirsRequest(
    dirs=(
        AlterReplicaLogDir(
            path="nowhere", topics=(AlterReplicaLogDirTopic(name="t", partitions=NUMBERS),)
        ),
    )
)
MARKERS = WriteTxnMarkersRequest(
    markers=(
        TransactionMarker(
            producer_id=7,
            producer_epoch=0,
            transaction_result=True,
            topics=(MarkedTopic(name="t", partition_indexes=(0,) * MANY),),
            coordinator_epoch=0,
        ),
    )
)
FETCHED_GROUPS = OffsetFetchRequest(groups=tuple(FetchedGroup(group_id=each) for each in NAMES))
FETCHED_OFFSETS = OffsetFetchRequest(
    groups=(
        FetchedGroup(group_id="g", topics=(FetchedTopic(name="t", partition_indexes=NUMBERS),)),
    )
)
PRODUCED = ProduceRequest(
    acks=1,
    timeout_ms=0,
    topic_data=(
        TopicProduceData(
            topic_id=UUID(int=99),
            partition_data=tuple(PartitionProduceData(index=each, records=b"") for each in NUMBERS),
        ),
    ),
)
JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=10_000,
    member_id="",
    protocol_type="consumer",
    protocols=tuple(JoinGroupProtocol(name=each, metadata=b"m") for each in NAMES),
)
SYNC = SyncGroupRequest(
    group_id="g",
    generation_id=1,
    member_id="m",
    protocol_type="consumer",
    protocol_name="range",
    assignments=tuple(SyncGroupAssignment(member_id=each, assignment=b"a") for each in NAMES),
)
AT_ONCE = 1_000
"""Members that may leave in one piece of work."""


@pytest.mark.parametrize(
    ("api", "body", "pieces"),
    [
        # Each entry is looked at twice: before the first batch is appended, and for its own batch.
        (broker_apis.PRODUCE, PRODUCED, 2 * MANY),
        (broker_apis.LIST_OFFSETS, LISTED, MANY),
        (broker_apis.OFFSET_FOR_LEADER_EPOCH, EPOCHS, MANY),
        (broker_apis.DELETE_RECORDS, deleted_records(*NUMBERS), MANY),
        (DESCRIBE_LOG_DIRS, LOG_DIRS, MANY),
        (DESCRIBE_PRODUCERS, PRODUCERS, MANY),
        (ALTER_REPLICA_LOG_DIRS, MOVED, MANY),
        (WRITE_TXN_MARKERS, MARKERS, MANY),
        (broker_apis.OFFSET_FETCH, FETCHED_GROUPS, MANY),
        (broker_apis.OFFSET_FETCH, FETCHED_OFFSETS, MANY),
        (broker_apis.JOIN_GROUP, JOIN, MANY),
        (broker_apis.SYNC_GROUP, SYNC, MANY),
        (
            broker_apis.LEAVE_GROUP,
            LeaveGroupRequest(
                group_id="g", members=(LeavingMember(member_id="m"),) * (3 * AT_ONCE)
            ),
            3,
        ),
        (broker_apis.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=NAMES), MANY),
        (broker_apis.DELETE_GROUPS, DeleteGroupsRequest(groups_names=NAMES), MANY),
        (
            broker_apis.FIND_COORDINATOR,
            FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES),
            MANY,
        ),
    ],
)
async def test_each_item_is_a_step_of_its_own(
    tmp_path: Path, api: Api, body: Message, pieces: int
) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        broker.ask(api, body)
        assert broker.connection.pieces >= pieces


@pytest.mark.parametrize(
    ("api", "body"),
    [
        (
            broker_apis.PRODUCE,
            ProduceRequest(
                acks=1,
                timeout_ms=0,
                topic_data=tuple(
                    TopicProduceData(topic_id=UUID(int=each + 1), partition_data=())
                    for each in NUMBERS
                ),
            ),
        ),
        (
            broker_apis.LIST_OFFSETS,
            ListOffsetsRequest(
                replica_id=-1,
                topics=tuple(ListOffsetsTopic(name=each, partitions=()) for each in NAMES),
            ),
        ),
        (
            broker_apis.OFFSET_FOR_LEADER_EPOCH,
            OffsetForLeaderEpochRequest(
                topics=tuple(OffsetForLeaderTopic(topic=each, partitions=()) for each in NAMES)
            ),
        ),
        (
            broker_apis.OFFSET_COMMIT,
            OffsetCommitRequest(
                group_id="g",
                member_id="",
                topics=tuple(
                    CommittedTopic(topic_id=UUID(int=each + 1), partitions=()) for each in NUMBERS
                ),
            ),
        ),
        (
            broker_apis.OFFSET_DELETE,
            OffsetDeleteRequest(
                group_id="g",
                topics=tuple(OffsetDeleteTopic(name=each, partitions=()) for each in NAMES),
            ),
        ),
        (
            DESCRIBE_PRODUCERS,
            DescribeProducersRequest(
                topics=tuple(
                    DescribeProducersTopic(name=each, partition_indexes=()) for each in NAMES
                )
            ),
        ),
        (
            ALTER_REPLICA_LOG_DIRS,
            AlterReplicaLogDirsRequest(
                dirs=(
                    AlterReplicaLogDir(
                        path="nowhere",
                        topics=tuple(
                            AlterReplicaLogDirTopic(name=each, partitions=()) for each in NAMES
                        ),
                    ),
                )
            ),
        ),
    ],
)
async def test_each_topic_without_partitions_is_a_step(
    tmp_path: Path, api: Api, body: Message
) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        broker.ask(api, body)
        assert broker.connection.pieces >= MANY


@pytest.mark.parametrize("after", [1, MANY])
async def test_no_offset_is_stored_for_a_topic_that_was_deleted_meanwhile(
    tmp_path: Path, after: int
) -> None:
    """`after`: so many of its partitions were looked up."""
    async with CoordinatingBroker(tmp_path) as broker:
        body = commit(broker.topic_id("many"))

        def meanwhile() -> None:
            if broker.connection.pieces > after and broker.has("many"):
                broker.delete("many")

        answer = await broker.ask_and_wait(broker_apis.OFFSET_COMMIT, body, meanwhile)
        assert {each.error_code for each in answer.topics[0].partitions} == {
            ErrorCode.UNKNOWN_TOPIC_ID
        }
        assert not broker.led.table.offsets.of("g")


async def test_no_offset_stays_of_a_topic_that_is_deleted_while_offsets_are_encoded(
    tmp_path: Path,
) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        body = commit(broker.topic_id("many"))
        asked = asyncio.create_task(broker.ask_and_wait(broker_apis.OFFSET_COMMIT, body))
        await asyncio.sleep(0)
        broker.delete("many")
        answer = await asked
        assert {each.error_code for each in answer.topics[0].partitions} == {0}
        async with asyncio.timeout(60):
            while broker.led.table.offsets.of("g"):  # noqa: ASYNC110 - time is virtual
                await asyncio.sleep(0)


async def test_last_of_many_offsets_of_one_partition_counts(tmp_path: Path) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        asked = tuple(
            CommittedPartition(partition_index=0, committed_offset=each, committed_metadata="")
            for each in NUMBERS
        )
        topics = (CommittedTopic(topic_id=broker.topic_id("t"), partitions=asked),)
        body = OffsetCommitRequest(group_id="g", member_id="", topics=topics)
        await broker.ask_and_wait(broker_apis.OFFSET_COMMIT, body)
        (found,) = broker.led.table.offsets.of("g").values()
        assert found.offset == NUMBERS[-1]


async def test_many_offsets_are_stored_and_deleted_in_one_batch(tmp_path: Path) -> None:
    """As by a stock broker: after a crash, there are all or none of them."""
    async with CoordinatingBroker(tmp_path) as broker:
        stored = broker.stored_batches()
        body = commit(broker.topic_id("many"))
        answer = await broker.ask_and_wait(broker_apis.OFFSET_COMMIT, body)
        assert {each.error_code for each in answer.topics[0].partitions} == {0}
        assert len(broker.led.table.offsets.of("g")) == MANY
        answer = await broker.ask_and_wait(broker_apis.OFFSET_DELETE, deleted_offsets("many"))
        assert {each.error_code for each in answer.topics[0].partitions} == {0}
        assert not broker.led.table.offsets.of("g")
        assert stored == [MANY, MANY]


async def test_commit_after_one_that_is_encoded_on_a_thread_is_stored_after_it(
    tmp_path: Path,
) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        many, one = commit(broker.topic_id("many")), commit(broker.topic_id("many"), numbers=(7,))
        one = replace(
            one,
            topics=(
                replace(
                    one.topics[0],
                    partitions=(replace(one.topics[0].partitions[0], committed_offset=6),),
                ),
            ),
        )
        first = asyncio.create_task(broker.ask_and_wait(broker_apis.OFFSET_COMMIT, many))
        await asyncio.sleep(0)
        await broker.ask_and_wait(broker_apis.OFFSET_COMMIT, one)
        assert first.done()
        assert broker.led.table.offsets.of("g")[TopicPartition("many", 7)].offset == 6


async def test_offsets_that_are_encoded_when_the_leadership_ends_are_not_stored(
    tmp_path: Path,
) -> None:
    """The next coordinator may have read the log, and would not know them. It may be of the same broker."""
    async with CoordinatingBroker(tmp_path) as broker:
        before = broker.led
        body = commit(broker.topic_id("many"))
        asked = asyncio.create_task(broker.ask_and_wait(broker_apis.OFFSET_COMMIT, body))
        await asyncio.sleep(0)
        broker.lose_and_regain_leadership()
        assert broker.led is not before
        answer = await asked
        assert {each.error_code for each in answer.topics[0].partitions} == {
            ErrorCode.NOT_COORDINATOR
        }
        assert before.log._encoding is not None
        await before.log._encoding
        await asyncio.sleep(1)  # of virtual time: its callback is called
        assert broker.led.replica.core.end_offset == 0


async def test_all_groups_are_listed_in_pieces(tmp_path: Path) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        for name in NAMES:
            broker.ask(broker_apis.OFFSET_COMMIT, commit(broker.topic_id("t"), name, (0,)))
        answer = broker.ask(broker_apis.LIST_GROUPS, ListGroupsRequest())
        assert sorted(each.group_id for each in answer.groups) == sorted(NAMES)
        assert broker.connection.pieces >= MANY


async def test_group_that_was_removed_meanwhile_is_not_listed(tmp_path: Path) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        for name in ("a", "b"):
            broker.ask(broker_apis.OFFSET_COMMIT, commit(broker.topic_id("t"), name, (0,)))

        def meanwhile() -> None:
            broker.groups.ask(DeleteGroup(broker.groups.new_id(), "b"), lambda answer: None)

        answer = broker.ask(broker_apis.LIST_GROUPS, ListGroupsRequest(), meanwhile)
        assert [each.group_id for each in answer.groups] == ["a"]


async def test_records_of_a_repeated_partition_are_deleted_once(tmp_path: Path) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        answer = broker.ask(broker_apis.DELETE_RECORDS, deleted_records(*(0,) * MANY))
        assert [each.partition_index for each in answer.topics[0].partitions] == [0]


async def test_assignments_without_a_protocol_are_refused(tmp_path: Path) -> None:
    async with CoordinatingBroker(tmp_path) as broker:
        answer = broker.ask(broker_apis.SYNC_GROUP, replace(SYNC, protocol_name=None))
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        answer = broker.ask(broker_apis.SYNC_GROUP, SYNC)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
