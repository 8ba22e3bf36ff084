"""Consumer groups on a broker of this software, over Kafka's protocol."""

from collections.abc import Iterator

import pytest

from quorum_node.protocol import broker_apis
from quorum_node.protocol.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from quorum_node.protocol.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from quorum_node.protocol.heartbeat import HeartbeatRequest, HeartbeatResponse
from quorum_node.protocol.join_group import (
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
)
from quorum_node.protocol.list_groups import ListGroupsRequest, ListGroupsResponse
from quorum_node.protocol.offset_commit import (
    CommittedPartition,
    CommittedTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from quorum_node.protocol.offset_fetch import (
    FetchedGroup,
    FetchedTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopic,
)
from quorum_node.protocol.sync_group import (
    SyncGroupAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from quorum_node.server.broker.group_coordinators import partition_of
from support.local_quorum import wait_until
from support.python_brokers import PythonBrokers, running_brokers

BROKER = 201
GROUP_PROPERTIES = {
    "offsets_topic_replication_factor": "1",
    "offsets_topic_num_partitions": "3",
    "group_initial_rebalance_delay_ms": "0",
}


LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
"""The broker leads the partition of the group, and does not coordinate yet."""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonBrokers]:
    """One broker on one controller."""
    with running_brokers(tmp_path_factory.mktemp("groups"), 1, **GROUP_PROPERTIES) as made:
        made.create_topic("read", [BROKER], 2)
        yield made


def coordinator(brokers: PythonBrokers, group: str) -> int:
    """Its id, once there is one."""

    def found() -> int | None:
        body = FindCoordinatorRequest(coordinator_keys=(group,))
        answer = brokers.ask(BROKER, broker_apis.FIND_COORDINATOR, body)
        assert isinstance(answer, FindCoordinatorResponse)
        one = answer.coordinators[0]
        assert one.error_code in (0, ErrorCode.COORDINATOR_NOT_AVAILABLE), one
        return None if one.error_code else one.node_id

    return wait_until(found, "a coordinator", 60)


def join(brokers: PythonBrokers, group: str, member: str = "") -> JoinGroupResponse:
    body = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=20_000,
        member_id=member,
        protocol_type="consumer",
        protocols=(JoinGroupProtocol(name="range", metadata=b"\0\0\0\0\0\0"),),
    )
    return answer_to_join(brokers, body)


def answer_to_join(
    brokers: PythonBrokers, body: JoinGroupRequest, version: int | None = None
) -> JoinGroupResponse:
    """The answer of the coordinator, once it has read its log."""

    def answered() -> JoinGroupResponse | None:
        answer = brokers.ask(BROKER, broker_apis.JOIN_GROUP, body, version)
        assert isinstance(answer, JoinGroupResponse)
        return None if answer.error_code in LOADING else answer

    return wait_until(answered, "an answer of the coordinator", 60)


def commit(brokers: PythonBrokers, group: str, member: str, generation: int, offset: int) -> int:
    body = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=(
            CommittedTopic(
                name="read",
                partitions=(
                    CommittedPartition(
                        partition_index=1, committed_offset=offset, committed_metadata="m"
                    ),
                ),
            ),
        ),
    )
    return committed(brokers, body, 9)


def committed(brokers: PythonBrokers, body: OffsetCommitRequest, version: int) -> int:
    """The error code of the coordinator, once it has read its log."""

    def code() -> int | None:
        answer = brokers.ask(BROKER, broker_apis.OFFSET_COMMIT, body, version)
        assert isinstance(answer, OffsetCommitResponse)
        found = answer.topics[0].partitions[0].error_code
        return None if found in LOADING else found + 1

    return wait_until(code, "an answer of the coordinator", 20) - 1


def fetched(brokers: PythonBrokers, group: str) -> int:
    """The committed offset, in the newest version and the oldest."""
    topic_id = brokers.metadata(BROKER, ["read"]).topics[0].topic_id  # type: ignore[union-attr]
    requested = FetchedGroup(
        group_id=group, topics=(FetchedTopic(topic_id=topic_id, partition_indexes=(0, 1)),)
    )
    answer = brokers.ask(
        BROKER, broker_apis.OFFSET_FETCH, OffsetFetchRequest(groups=(requested, requested))
    )
    assert isinstance(answer, OffsetFetchResponse)
    assert len(answer.groups) == 1, "once each"
    assert not answer.groups[0].error_code
    none, one = answer.groups[0].topics[0].partitions
    assert (none.committed_offset, none.error_code, one.error_code) == (-1, 0, 0)
    old = brokers.ask(
        BROKER,
        broker_apis.OFFSET_FETCH,
        OffsetFetchRequest(
            group_id=group, topics=(OffsetFetchTopic(name="read", partition_indexes=(1,)),)
        ),
        version=1,
    )
    assert isinstance(old, OffsetFetchResponse)
    assert old.topics[0].partitions[0].committed_offset == one.committed_offset
    return one.committed_offset


def described(brokers: PythonBrokers, group: str) -> str:
    """Its state, as of a coordinator that has read its log."""
    body = DescribeGroupsRequest(groups=(group, group))

    def state() -> str | None:
        answer = brokers.ask(BROKER, broker_apis.DESCRIBE_GROUPS, body)
        assert isinstance(answer, DescribeGroupsResponse)
        assert len(answer.groups) == 1, "once each"
        if answer.groups[0].error_code in LOADING:
            return None
        assert answer.groups[0].error_code in (0, ErrorCode.GROUP_ID_NOT_FOUND)
        return answer.groups[0].group_state

    return wait_until(state, "an answer of the coordinator", 60)


def test_group_consumes_and_its_offsets_survive_a_killed_coordinator(
    brokers: PythonBrokers,
) -> None:
    group = "lives"
    assert coordinator(brokers, group) == BROKER
    first = join(brokers, group)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = join(brokers, group, first.member_id)
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, first.member_id)
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id=first.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(SyncGroupAssignment(member_id=first.member_id, assignment=b"all"),),
    )
    synced = brokers.ask(BROKER, broker_apis.SYNC_GROUP, sync)
    assert isinstance(synced, SyncGroupResponse)
    assert (synced.error_code, synced.assignment) == (0, b"all")
    assert commit(brokers, group, first.member_id, 1, 42) == 0
    assert commit(brokers, group, first.member_id, 2, 43) == ErrorCode.ILLEGAL_GENERATION
    assert fetched(brokers, group) == 42
    assert described(brokers, group) == "Stable"
    listed = brokers.ask(BROKER, broker_apis.LIST_GROUPS, ListGroupsRequest())
    assert isinstance(listed, ListGroupsResponse)
    assert [(each.group_id, each.group_type) for each in listed.groups] == [(group, "classic")]

    brokers.nodes[BROKER].kill()
    brokers.start()

    def heartbeat() -> int | None:
        body = HeartbeatRequest(group_id=group, generation_id=1, member_id=first.member_id)
        answer = brokers.ask(BROKER, broker_apis.HEARTBEAT, body)
        assert isinstance(answer, HeartbeatResponse)
        return None if answer.error_code == ErrorCode.NOT_COORDINATOR else answer.error_code + 1

    assert wait_until(heartbeat, "the coordinator is back", 20) == 1
    wait_until(lambda: described(brokers, group) == "Stable", "its log is read", 60)
    assert fetched(brokers, group) == 42
    assert commit(brokers, group, first.member_id, 1, 44) == 0


@pytest.mark.parametrize("version", [5, 9])
def test_longest_group_instance_ids_are_accepted(brokers: PythonBrokers, version: int) -> None:
    """A member id begins with the name of the instance: together they would be too long for a response or a record."""
    group = f"long-{version}"
    coordinator(brokers, group)
    body = JoinGroupRequest(
        group_id=f"{group}-{version}",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=20_000,
        member_id="",
        group_instance_id="é" * 16_383 + "i",
        protocol_type="consumer",
        protocols=(JoinGroupProtocol(name="range", metadata=b"\0\0\0\0\0\0"),),
    )
    joined = answer_to_join(brokers, body, version)
    assert joined.error_code == 0
    assert joined.member_id.startswith("é" * 16_000 + "-")
    sync = SyncGroupRequest(
        group_id=body.group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=body.group_instance_id,
        assignments=(SyncGroupAssignment(member_id=joined.member_id, assignment=b"all"),),
    )
    synced = brokers.ask(BROKER, broker_apis.SYNC_GROUP, sync, 3)
    assert isinstance(synced, SyncGroupResponse)
    assert (synced.error_code, synced.assignment) == (0, b"all")


@pytest.mark.parametrize("kept_ms", [(1 << 63) - 1, -(1 << 63)])
def test_offset_commit_accepts_any_retention_time(brokers: PythonBrokers, kept_ms: int) -> None:
    """Versions below 5 have a retention time; added to the present it is more than a record can express."""
    body = OffsetCommitRequest(
        group_id="kept",
        generation_id_or_member_epoch=-1,
        member_id="",
        retention_time_ms=kept_ms,
        topics=(
            CommittedTopic(
                name="read",
                partitions=(
                    CommittedPartition(
                        partition_index=0, committed_offset=3, committed_metadata=None
                    ),
                ),
            ),
        ),
    )
    coordinator(brokers, "kept")
    assert committed(brokers, body, 4) == 0
    assert brokers.nodes[BROKER].is_running


def test_group_with_the_empty_name_has_offsets_and_no_members(brokers: PythonBrokers) -> None:
    """Old clients without a group id use it; a stock broker accepts that."""
    assert coordinator(brokers, "") == BROKER
    assert join(brokers, "").error_code == ErrorCode.INVALID_GROUP_ID
    assert commit(brokers, "", "", -1, 5) == 0
    assert fetched(brokers, "") == 5
    assert described(brokers, "") == "Empty"
    body = DeleteGroupsRequest(groups_names=("",))
    deleted = brokers.ask(BROKER, broker_apis.DELETE_GROUPS, body)
    assert isinstance(deleted, DeleteGroupsResponse)
    assert [each.error_code for each in deleted.results] == [0]
    assert fetched(brokers, "") == -1


def test_group_requests_are_rejected_with_kafka_error_codes(brokers: PythonBrokers) -> None:
    assert coordinator(brokers, "refused") == BROKER
    assert described(brokers, "refused") == "Dead"
    assert join(brokers, "refused", "stranger").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(brokers, "refused", "", -1, 5) == 0
    deleted = brokers.ask(
        BROKER,
        broker_apis.DELETE_GROUPS,
        DeleteGroupsRequest(groups_names=("refused", "no such group")),
    )
    assert isinstance(deleted, DeleteGroupsResponse)
    assert [each.error_code for each in deleted.results] == [0, ErrorCode.GROUP_ID_NOT_FOUND]
    assert fetched(brokers, "refused") == -1
    refused = brokers.ask(
        BROKER,
        broker_apis.FIND_COORDINATOR,
        FindCoordinatorRequest(key_type=1, coordinator_keys=("transaction",)),
    )
    assert isinstance(refused, FindCoordinatorResponse)
    assert refused.coordinators[0].error_code == ErrorCode.UNSUPPORTED_VERSION
    offsets = brokers.metadata(BROKER, ["__consumer_offsets"])
    assert offsets is not None
    topic_id = offsets.topics[0].topic_id
    assert topic_id is not None
    assert len(offsets.topics[0].partitions) == 3
    assert brokers.produce(BROKER, topic_id, [b"x"]).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("key", "partition"), [("", 0), ("group", 47), ("polygenelubricants", 0), ("ä\U0001f600", 7)]
)
def test_groups_are_on_the_offsets_partitions_where_kafka_expects_them(
    key: str, partition: int
) -> None:
    """Java: `Utils.abs(key.hashCode()) % 50`; the second hash but one is the smallest integer."""
    assert partition_of(key, 50) == partition
