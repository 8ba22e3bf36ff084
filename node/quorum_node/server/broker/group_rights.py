"""Authorizes requests for one group, and makes the refusal of such a request in the form of its answer.

Owns the right that the request needs on its group. Requests for several groups are answered group by group, and the topics of a request
topic by topic, in their handlers.
Source: KafkaApis of Apache Kafka 4.3.1.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from quorum_node.controller.authorization import Rights
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.heartbeat import HeartbeatRequest, HeartbeatResponse
from quorum_node.protocol.join_group import JoinGroupRequest, JoinGroupResponse
from quorum_node.protocol.leave_group import LeaveGroupRequest, LeaveGroupResponse
from quorum_node.protocol.offset_commit import OffsetCommitRequest
from quorum_node.protocol.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from quorum_node.protocol.sync_group import SyncGroupRequest, SyncGroupResponse
from quorum_node.schema.schema import Message
from quorum_node.security.acl_terms import AclOperation, AclResource
from quorum_node.server.broker.group_offset_outcomes import commit_answer

_NO_PROTOCOL_SINCE = 7
_ERROR = ErrorCode.GROUP_AUTHORIZATION_FAILED


@dataclass(frozen=True, slots=True)
class _OfOneGroup:
    """The right that a request needs on its group, and the answer without it."""

    operation: AclOperation
    refusal: Callable[[Any, int], Message]
    """The request and its version → the answer."""


def refusal_of(body: Message, version: int, rights: Rights) -> Callable[[], Message] | None:
    """Makes the answer that refuses the request; None if the request is allowed or is not for one group."""
    rule = _RULES.get(type(body))
    if rule is None:
        return None
    named: Any = body
    if rights.allows(rule.operation, AclResource.GROUP, named.group_id):
        return None
    return lambda: rule.refusal(body, version)


def _commit(body: OffsetCommitRequest, _: int) -> Message:
    return commit_answer(body, lambda *_: _ERROR)


def _join(_: JoinGroupRequest, version: int) -> Message:
    """As from a stock broker, the answer names no member."""
    protocol = None if version >= _NO_PROTOCOL_SINCE else ""
    return JoinGroupResponse(
        error_code=_ERROR, protocol_name=protocol, leader="", member_id="", members=()
    )


_RULES: Mapping[type[Message], _OfOneGroup] = {
    JoinGroupRequest: _OfOneGroup(AclOperation.READ, _join),
    SyncGroupRequest: _OfOneGroup(
        AclOperation.READ, lambda *_: SyncGroupResponse(error_code=_ERROR, assignment=b"")
    ),
    HeartbeatRequest: _OfOneGroup(
        AclOperation.READ, lambda *_: HeartbeatResponse(error_code=_ERROR)
    ),
    LeaveGroupRequest: _OfOneGroup(
        AclOperation.READ, lambda *_: LeaveGroupResponse(error_code=_ERROR)
    ),
    OffsetCommitRequest: _OfOneGroup(AclOperation.READ, _commit),
    OffsetDeleteRequest: _OfOneGroup(
        AclOperation.DELETE, lambda *_: OffsetDeleteResponse(error_code=_ERROR, topics=())
    ),
}
