"""Authorizes group requests, and makes the refusal of a whole request in the form of its answer.

Owns the rights that each request needs on groups and topics. A request for several groups or topics is refused as a whole if one of
them is not allowed.
Source: KafkaApis of Apache Kafka 4.3.1.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import UUID

from quorum_node.controller.authorization import Rights
from quorum_node.image.topics import TopicsImage
from quorum_node.protocol.delete_groups import (
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from quorum_node.protocol.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from quorum_node.protocol.heartbeat import HeartbeatRequest, HeartbeatResponse
from quorum_node.protocol.join_group import JoinGroupRequest, JoinGroupResponse
from quorum_node.protocol.leave_group import LeaveGroupRequest, LeaveGroupResponse
from quorum_node.protocol.list_groups import ListGroupsRequest, ListGroupsResponse
from quorum_node.protocol.offset_commit import (
    OffsetCommitPartitionResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopicResponse,
)
from quorum_node.protocol.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from quorum_node.protocol.offset_fetch import (
    FetchedGroupResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from quorum_node.protocol.sync_group import SyncGroupRequest, SyncGroupResponse
from quorum_node.schema.schema import Message
from quorum_node.security.acl_terms import AclOperation, AclResource

_GROUP = 0
_MEMBERS = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest)


def refused(body: Message, rights: Rights, topics: TopicsImage) -> Message | None:
    """The answer that refuses the request; None if the request is allowed or does not concern groups."""
    if isinstance(body, ListGroupsRequest):
        if rights.allows(AclOperation.DESCRIBE, AclResource.CLUSTER):
            return None
        return ListGroupsResponse(error_code=ErrorCode.NONE, groups=())
    found = _asked(body)
    if found is None:
        return None
    operation, resource, names = found
    if not all(rights.allows(operation, resource, name) for name in names):
        is_group = resource is AclResource.GROUP
        error = (
            ErrorCode.GROUP_AUTHORIZATION_FAILED
            if is_group
            else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
        return _refusal(body, error)
    on_topics = AclOperation.DESCRIBE if isinstance(body, OffsetFetchRequest) else AclOperation.READ
    if not all(rights.allows(on_topics, AclResource.TOPIC, name) for name in _topics(body, topics)):
        return _refusal(body, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None


def _asked(body: Message) -> tuple[AclOperation, AclResource, Iterable[str]] | None:
    group = AclResource.GROUP
    match body:
        case FindCoordinatorRequest():
            kind = group if body.key_type == _GROUP else AclResource.TRANSACTIONAL_ID
            return AclOperation.DESCRIBE, kind, body.coordinator_keys or (body.key,)
        case OffsetCommitRequest():
            return AclOperation.READ, group, (body.group_id,)
        case OffsetFetchRequest():
            names = [each.group_id for each in body.groups] or [body.group_id]
            return AclOperation.DESCRIBE, group, names
        case OffsetDeleteRequest():
            return AclOperation.DELETE, group, (body.group_id,)
        case DescribeGroupsRequest():
            return AclOperation.DESCRIBE, group, body.groups
        case DeleteGroupsRequest():
            return AclOperation.DELETE, group, body.groups_names
    if isinstance(body, _MEMBERS):
        return AclOperation.READ, group, (body.group_id,)
    return None


def _topics(body: Message, topics: TopicsImage) -> Iterator[str]:
    """Names of the topics in the request; unknown topic ids are skipped."""

    def named(topic_id: UUID | None, name: str) -> Iterator[str]:
        found = topics.get(topic_id) if topic_id is not None else None
        if found is not None or name:
            yield found.name if found is not None else name

    match body:
        case OffsetCommitRequest():
            for topic in body.topics:
                yield from named(topic.topic_id, topic.name)
        case OffsetDeleteRequest():
            for deleted in body.topics:
                yield deleted.name
        case OffsetFetchRequest():
            for old in body.topics or ():
                yield old.name
            for group in body.groups:
                for fetched in group.topics or ():
                    yield from named(fetched.topic_id, fetched.name)


def _commit(body: OffsetCommitRequest, error: ErrorCode) -> Message:
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitTopicResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitPartitionResponse(
                        partition_index=each.partition_index, error_code=error
                    )
                    for each in topic.partitions
                ),
            )
            for topic in body.topics
        )
    )


def _find(body: FindCoordinatorRequest, error: ErrorCode) -> Message:
    found = tuple(Coordinator(key=key, error_code=error) for key in body.coordinator_keys)
    return FindCoordinatorResponse(error_code=error, coordinators=found)


def _fetch(body: OffsetFetchRequest, error: ErrorCode) -> Message:
    found = tuple(
        FetchedGroupResponse(group_id=each.group_id, error_code=error) for each in body.groups
    )
    return OffsetFetchResponse(error_code=error, groups=found)


def _describe(body: DescribeGroupsRequest, error: ErrorCode) -> Message:
    return DescribeGroupsResponse(
        groups=tuple(
            DescribedGroup(
                error_code=error,
                group_id=group_id,
                group_state="",
                protocol_type="",
                protocol_data="",
                members=(),
            )
            for group_id in body.groups
        )
    )


_REFUSALS: dict[type[Message], Callable[[Any, ErrorCode], Message]] = {
    FindCoordinatorRequest: _find,
    JoinGroupRequest: lambda body, error: JoinGroupResponse(
        error_code=error, protocol_name="", leader="", member_id=body.member_id, members=()
    ),
    SyncGroupRequest: lambda _, error: SyncGroupResponse(error_code=error, assignment=b""),
    HeartbeatRequest: lambda _, error: HeartbeatResponse(error_code=error),
    LeaveGroupRequest: lambda _, error: LeaveGroupResponse(error_code=error),
    OffsetCommitRequest: _commit,
    OffsetFetchRequest: _fetch,
    OffsetDeleteRequest: lambda _, error: OffsetDeleteResponse(error_code=error, topics=()),
    DescribeGroupsRequest: _describe,
    DeleteGroupsRequest: lambda body, error: DeleteGroupsResponse(
        results=tuple(DeletedGroup(group_id=each, error_code=error) for each in body.groups_names)
    ),
}


def _refusal(body: Message, error: ErrorCode) -> Message:
    return _REFUSALS[type(body)](body, error)
