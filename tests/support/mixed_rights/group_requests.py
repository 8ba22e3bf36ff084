"""Requests about groups and coordinators."""

from collections.abc import Iterator

from quorum_node.protocol import broker_apis
from quorum_node.protocol.delete_groups import DeleteGroupsRequest
from quorum_node.protocol.describe_groups import DescribeGroupsRequest
from quorum_node.protocol.find_coordinator import FindCoordinatorRequest
from quorum_node.protocol.heartbeat import HeartbeatRequest
from quorum_node.protocol.join_group import JoinGroupProtocol, JoinGroupRequest
from quorum_node.protocol.leave_group import LeaveGroupRequest, LeavingMember
from quorum_node.protocol.list_groups import ListGroupsRequest
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
from quorum_node.protocol.offset_fetch import (
    FetchedGroup,
    FetchedTopic,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from quorum_node.protocol.sync_group import SyncGroupRequest
from support.mixed_rights.items import EXISTING, NAMES, UNKNOWN_ID, Case, Ids, fixed

PARTITIONS = (0, 9)
"""The second one does not exist."""


def commit(group: str, ids: Ids | None) -> OffsetCommitRequest:
    """Offsets of all topics: by id, or by name."""
    partitions = tuple(
        CommittedPartition(partition_index=each, committed_offset=5, committed_metadata="m")
        for each in PARTITIONS
    )
    topics = [
        CommittedTopic(name="", topic_id=ids.of(name), partitions=partitions)
        if ids is not None
        else CommittedTopic(name=name, partitions=partitions)
        for name in (NAMES if ids is None else (*EXISTING, "none"))
    ]
    return OffsetCommitRequest(group_id=group, member_id="", topics=tuple(topics))


def commits() -> Iterator[Case]:
    """OffsetCommit."""
    for group in EXISTING:
        for version in (2, 9):
            yield from fixed(broker_apis.OFFSET_COMMIT, (version,), commit(group, None))
        yield broker_apis.OFFSET_COMMIT, 10, lambda ids, group=group: commit(group, ids)  # type: ignore[misc]


def fetches() -> Iterator[Case]:
    """OffsetFetch of one group and of several, of all topics and of named ones."""
    api = broker_apis.OFFSET_FETCH
    old = tuple(OffsetFetchTopic(name=each, partition_indexes=PARTITIONS) for each in NAMES)
    new = tuple(FetchedTopic(name=each, partition_indexes=PARTITIONS) for each in NAMES)
    for group in NAMES:
        yield from fixed(api, (1, 2, 7), OffsetFetchRequest(group_id=group, topics=old))
        yield from fixed(api, (2, 7), OffsetFetchRequest(group_id=group, topics=None))
    for topics in (new, None):
        groups = tuple(FetchedGroup(group_id=each, topics=topics) for each in NAMES)
        yield from fixed(api, (8, 9), OffsetFetchRequest(groups=groups))

    def by_id(ids: Ids) -> OffsetFetchRequest:
        topics = tuple(
            FetchedTopic(name="", topic_id=each, partition_indexes=PARTITIONS)
            for each in (*map(ids.of, EXISTING), UNKNOWN_ID)
        )
        groups = tuple(FetchedGroup(group_id=each, topics=topics) for each in NAMES)
        return OffsetFetchRequest(groups=groups)

    yield api, 10, by_id
    groups = tuple(FetchedGroup(group_id=each, topics=None) for each in NAMES)
    yield from fixed(api, (10,), OffsetFetchRequest(groups=groups))


def coordinators() -> Iterator[Case]:
    """FindCoordinator by key and by keys, of each kind. Share groups are not compared where the sender may look them up."""
    api = broker_apis.FIND_COORDINATOR
    for kind in (0, 2):
        for name in ("mine", "other"):
            body = FindCoordinatorRequest(key=name, key_type=kind)
            yield from fixed(api, (1, 3) if kind else (0, 1, 3), body)
        keys = ("mine", "other") if kind == 0 else ("mine:x", "other")
        body = FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)
        yield from fixed(api, (4, 5, 6), body)
    yield from fixed(api, (1, 3), FindCoordinatorRequest(key="other", key_type=1))
    body = FindCoordinatorRequest(key_type=1, coordinator_keys=("other", "none"))
    yield from fixed(api, (4, 6), body)


def administration() -> Iterator[Case]:
    """DescribeGroups, ListGroups, OffsetDelete and DeleteGroups. The last ones change the groups."""
    yield from fixed(broker_apis.DESCRIBE_GROUPS, (0, 3, 5, 6), DescribeGroupsRequest(groups=NAMES))
    yield from fixed(
        broker_apis.DESCRIBE_GROUPS,
        (3, 6),
        DescribeGroupsRequest(groups=NAMES, include_authorized_operations=True),
    )
    yield from fixed(broker_apis.LIST_GROUPS, (0, 4, 5), ListGroupsRequest())
    topics = tuple(
        OffsetDeleteTopic(
            name=each,
            partitions=tuple(OffsetDeletePartition(partition_index=each) for each in PARTITIONS),
        )
        for each in NAMES
    )
    for group in NAMES:
        body = OffsetDeleteRequest(group_id=group, topics=topics)
        yield from fixed(broker_apis.OFFSET_DELETE, (0,), body)
    yield from commits()
    names = (*NAMES, "other", "mine")
    yield from fixed(broker_apis.DELETE_GROUPS, (0, 2), DeleteGroupsRequest(groups_names=names))
    yield from commits()


def members() -> Iterator[Case]:
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup, from members that do not exist."""
    for group in NAMES:
        protocols = (JoinGroupProtocol(name="range", metadata=b""),)
        join = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=6_000,
            member_id="m",
            protocol_type="consumer",
            protocols=protocols,
        )
        yield from fixed(broker_apis.JOIN_GROUP, (2, 9), join)
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=1,
            member_id="m",
            protocol_type="consumer",
            protocol_name="range",
            assignments=(),
        )
        yield from fixed(broker_apis.SYNC_GROUP, (0, 5), sync)
        beat = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
        yield from fixed(broker_apis.HEARTBEAT, (0, 4), beat)
        one = LeaveGroupRequest(group_id=group, member_id="m", members=())
        yield from fixed(broker_apis.LEAVE_GROUP, (0, 2), one)
        some = LeaveGroupRequest(group_id=group, members=(LeavingMember(member_id="m"),))
        yield from fixed(broker_apis.LEAVE_GROUP, (3, 5), some)
