"""Requests about groups, records and producers that are wrong in one way or another, for comparisons of brokers.

Owns the requests. The tests compare the answers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

from quorum_node.protocol import broker_apis
from quorum_node.protocol.api import Api
from quorum_node.protocol.delete_groups import DeleteGroupsRequest
from quorum_node.protocol.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from quorum_node.protocol.describe_groups import DescribeGroupsRequest
from quorum_node.protocol.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersTopic,
)
from quorum_node.protocol.find_coordinator import FindCoordinatorRequest
from quorum_node.protocol.heartbeat import HeartbeatRequest
from quorum_node.protocol.init_producer_id import InitProducerIdRequest
from quorum_node.protocol.join_group import JoinGroupProtocol, JoinGroupRequest
from quorum_node.protocol.leave_group import LeaveGroupRequest, LeavingMember
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
from quorum_node.protocol.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from quorum_node.protocol.sync_group import SyncGroupRequest
from quorum_node.schema.schema import Message
from quorum_node.server.broker.group_coordinators import partition_of

OFFSETS = "__consumer_offsets"
UNKNOWN_ID = UUID(int=99)


@dataclass(frozen=True)
class Names:
    """What the requests to one broker name: a group that it coordinates, one of the other broker, and the topic that it leads."""

    group: str
    foreign: str
    topic: str
    followed: str
    topic_id: UUID


Case = tuple[Api, int, Callable[[Names], Message]]


def joins() -> Iterator[Case]:
    """JoinGroup."""
    protocols = (JoinGroupProtocol(name="range", metadata=b"\0\0\0\0\0\0"),)
    for version in (0, 4, 5, 9):
        for group in ("{group}", "", "{foreign}"):
            for session_ms in (1, 10_000, 1 << 30):
                for given, kind in ((protocols, "consumer"), ((), "consumer"), (protocols, "")):
                    if (group, session_ms) == ("{group}", 10_000) and given and kind:
                        continue  # valid
                    yield (
                        broker_apis.JOIN_GROUP,
                        version,
                        lambda names, group=group, session_ms=session_ms, given=given, kind=kind: (  # type: ignore[misc]
                            JoinGroupRequest(
                                group_id=filled(group, names),
                                session_timeout_ms=session_ms,
                                rebalance_timeout_ms=9_000,
                                member_id="",
                                protocol_type=kind,
                                protocols=given,
                            )
                        ),
                    )
        yield (
            broker_apis.JOIN_GROUP,
            version,
            lambda names: JoinGroupRequest(
                group_id=names.group,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=9_000,
                member_id="stranger",
                protocol_type="consumer",
                protocols=protocols,
            ),
        )


def members() -> Iterator[Case]:
    """Heartbeat, SyncGroup and LeaveGroup."""
    for group in ("{group}", "", "{foreign}"):
        for member in ("", "stranger"):
            for generation in (-1, 0, 5):
                yield (
                    broker_apis.HEARTBEAT,
                    4,
                    lambda names, group=group, member=member, generation=generation: (  # type: ignore[misc]
                        HeartbeatRequest(
                            group_id=filled(group, names),
                            generation_id=generation,
                            member_id=member,
                        )
                    ),
                )
                for version in (0, 5):
                    yield (
                        broker_apis.SYNC_GROUP,
                        version,
                        lambda names, group=group, member=member, generation=generation: (  # type: ignore[misc]
                            SyncGroupRequest(
                                group_id=filled(group, names),
                                generation_id=generation,
                                member_id=member,
                                protocol_type="consumer",
                                protocol_name="range",
                                assignments=(),
                            )
                        ),
                    )
                yield (
                    broker_apis.SYNC_GROUP,
                    5,
                    lambda names, group=group, member=member: SyncGroupRequest(  # type: ignore[misc]
                        group_id=filled(group, names),
                        generation_id=1,
                        member_id=member,
                        protocol_type="consumer",
                        assignments=(),
                    ),
                )
            for version in (0, 2):
                yield (
                    broker_apis.LEAVE_GROUP,
                    version,
                    lambda names, group=group, member=member: LeaveGroupRequest(  # type: ignore[misc]
                        group_id=filled(group, names), member_id=member
                    ),
                )
            for given in ((), (LeavingMember(member_id=member),)):
                yield (
                    broker_apis.LEAVE_GROUP,
                    5,
                    lambda names, group=group, given=given: LeaveGroupRequest(  # type: ignore[misc]
                        group_id=filled(group, names), members=given
                    ),
                )


_PLACES = (("{topic}", 0), ("{topic}", 9), ("{topic}", -1), ("unknown", 0))


def commits() -> Iterator[Case]:
    """OffsetCommit."""
    # The empty name is that of a group, too, but only one of the brokers can coordinate it.
    for version in (2, 5, 9):
        for group in ("{group}", "{foreign}"):
            for name, partition in _PLACES:
                for generation, member in ((-1, ""), (3, ""), (-1, "m"), (3, "m")):
                    for text in ("", "x" * 5_000):
                        yield (
                            broker_apis.OFFSET_COMMIT,
                            version,
                            lambda names, group=group, name=name, partition=partition, generation=generation, member=member, text=text: (  # type: ignore[misc]
                                OffsetCommitRequest(
                                    group_id=filled(group, names),
                                    generation_id_or_member_epoch=generation,
                                    member_id=member,
                                    topics=(
                                        CommittedTopic(
                                            name=filled(name, names),
                                            partitions=(
                                                CommittedPartition(
                                                    partition_index=partition,
                                                    committed_offset=-5,
                                                    committed_metadata=text,
                                                ),
                                            ),
                                        ),
                                    ),
                                )
                            ),
                        )


def commits_of_unknown_groups() -> Iterator[Case]:
    """OffsetCommit of a member of a group that does not exist."""
    for version in (2, 8, 9, 10):
        for member in ("", "m"):
            yield (
                broker_apis.OFFSET_COMMIT,
                version,
                lambda names, version=version, member=member: OffsetCommitRequest(  # type: ignore[misc]
                    group_id=own("never committed", names),
                    generation_id_or_member_epoch=3,
                    member_id=member,
                    topics=(
                        CommittedTopic(
                            name="" if version >= 10 else names.topic,
                            topic_id=names.topic_id if version >= 10 else None,
                            partitions=(
                                CommittedPartition(
                                    partition_index=0, committed_offset=5, committed_metadata=""
                                ),
                            ),
                        ),
                    ),
                ),
            )


def fetches() -> Iterator[Case]:
    """OffsetFetch and OffsetDelete."""
    for group in ("{group}", "{foreign}", "never seen"):
        for name, partition in _PLACES:
            for version in (1, 2, 7):
                yield (
                    broker_apis.OFFSET_FETCH,
                    version,
                    lambda names, group=group, name=name, partition=partition: OffsetFetchRequest(  # type: ignore[misc]
                        group_id=own(group, names),
                        topics=(
                            OffsetFetchTopic(
                                name=filled(name, names), partition_indexes=(partition,)
                            ),
                        ),
                    ),
                )
            for version in (8, 10):
                yield (
                    broker_apis.OFFSET_FETCH,
                    version,
                    lambda names, group=group, name=name, partition=partition, version=version: (  # type: ignore[misc]
                        OffsetFetchRequest(
                            groups=(
                                FetchedGroup(
                                    group_id=own(group, names),
                                    topics=(
                                        FetchedTopic(
                                            name="" if version >= 10 else filled(name, names),
                                            topic_id=None
                                            if version < 10
                                            else (
                                                UNKNOWN_ID if name == "unknown" else names.topic_id
                                            ),
                                            partition_indexes=(partition,),
                                        ),
                                    ),
                                ),
                            )
                        )
                    ),
                )
            yield (
                broker_apis.OFFSET_DELETE,
                0,
                lambda names, group=group, name=name, partition=partition: OffsetDeleteRequest(  # type: ignore[misc]
                    group_id=own(group, names),
                    topics=(
                        OffsetDeleteTopic(
                            name=filled(name, names),
                            partitions=(OffsetDeletePartition(partition_index=partition),),
                        ),
                    ),
                ),
            )


def administration() -> Iterator[Case]:
    """DeleteGroups, DescribeGroups, FindCoordinator and InitProducerId."""
    yield (
        broker_apis.OFFSET_DELETE,
        0,
        lambda names: OffsetDeleteRequest(
            group_id="",
            topics=(
                OffsetDeleteTopic(
                    name=names.topic, partitions=(OffsetDeletePartition(partition_index=0),)
                ),
            ),
        ),
    )
    for version in (0, 2):
        yield (
            broker_apis.DELETE_GROUPS,
            version,
            lambda names: DeleteGroupsRequest(
                groups_names=(names.foreign, own("never seen", names))
            ),
        )
    for version in (0, 5, 6):
        yield (
            broker_apis.DESCRIBE_GROUPS,
            version,
            lambda names: DescribeGroupsRequest(groups=(names.foreign, own("never", names))),
        )
    for version in (0, 3):
        for kind in (0, 2, 7) if version else (0,):
            yield (
                broker_apis.FIND_COORDINATOR,
                version,
                lambda names, kind=kind: FindCoordinatorRequest(key="", key_type=kind),  # type: ignore[misc]
            )
    for kind in (0, 7):
        yield (
            broker_apis.FIND_COORDINATOR,
            6,
            lambda names, kind=kind: FindCoordinatorRequest(  # type: ignore[misc]
                key_type=kind, coordinator_keys=("", names.group)
            ),
        )
    for producer_id, epoch in ((-1, -1), (5, -1), (-1, 5), (5, 5), (-2, -2)):
        for version in (2, 3, 5):
            for name in (None, ""):
                yield (
                    broker_apis.INIT_PRODUCER_ID,
                    version,
                    lambda names, producer_id=producer_id, epoch=epoch, name=name: (  # type: ignore[misc]
                        InitProducerIdRequest(
                            transactional_id=name,
                            transaction_timeout_ms=0,
                            producer_id=producer_id,
                            producer_epoch=epoch,
                        )
                    ),
                )


def partitions() -> Iterator[Case]:
    """DeleteRecords, DescribeProducers and OffsetForLeaderEpoch."""
    places = (
        ("{topic}", 0),
        ("{topic}", 9),
        ("{topic}", -1),
        ("{followed}", 0),
        ("unknown", 0),
        (OFFSETS, 0),
        (OFFSETS, 9),
        ("__transaction_state", 0),
        ("a name!", 0),
    )
    for name, partition in places:
        for offset in (-2, -1, 0, 7):
            for version in (0, 2):
                yield (
                    broker_apis.DELETE_RECORDS,
                    version,
                    lambda names, name=name, partition=partition, offset=offset: (  # type: ignore[misc]
                        DeleteRecordsRequest(
                            topics=(
                                DeleteRecordsTopic(
                                    name=filled(name, names),
                                    partitions=(
                                        DeleteRecordsPartition(
                                            partition_index=partition, offset=offset
                                        ),
                                    ),
                                ),
                            ),
                            timeout_ms=5_000,
                        )
                    ),
                )
        if name == OFFSETS:
            continue  # each broker leads one of them
        yield (
            broker_apis.DESCRIBE_PRODUCERS,
            0,
            lambda names, name=name, partition=partition: DescribeProducersRequest(  # type: ignore[misc]
                topics=(
                    DescribeProducersTopic(
                        name=filled(name, names), partition_indexes=(partition,)
                    ),
                )
            ),
        )
        yield from _epochs(name, partition)


def _epochs(name: str, partition: int) -> Iterator[Case]:
    for version in (2, 4):
        for replica_id in (-1, -2, 77):
            for current in (-1, 0, 1):
                for epoch in (-1, 0, 5):
                    yield (
                        broker_apis.OFFSET_FOR_LEADER_EPOCH,
                        version,
                        lambda names, replica_id=replica_id, current=current, epoch=epoch: (  # type: ignore[misc]
                            OffsetForLeaderEpochRequest(
                                replica_id=replica_id,
                                topics=(
                                    OffsetForLeaderTopic(
                                        topic=filled(name, names),
                                        partitions=(
                                            OffsetForLeaderPartition(
                                                partition=partition,
                                                current_leader_epoch=current,
                                                leader_epoch=epoch,
                                            ),
                                        ),
                                    ),
                                ),
                            )
                        ),
                    )


def filled(text: str, names: Names) -> str:
    """Names in braces stand for those of the broker."""
    return text.format(
        group=names.group, foreign=names.foreign, topic=names.topic, followed=names.followed
    )


def own(text: str, names: Names) -> str:
    """As `filled`; another group is one that the broker coordinates."""
    found = filled(text, names)
    if text == found and text:
        return group_of(partition_of(names.group, 2), text)
    return found


def group_of(partition: int, prefix: str) -> str:
    """A group in this one of two partitions."""
    return next(name for n in range(99) if partition_of(name := f"{prefix} {n}", 2) == partition)
