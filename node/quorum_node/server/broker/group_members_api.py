"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: translated between the wire and the group's coordinator.

Owns the differences between versions. Does not depend on the rules of groups.
Source: the rules of a stock broker for JoinGroup 0 to 9, SyncGroup 0 to 5, Heartbeat 0 to 4 and LeaveGroup 0 to 5.
"""

from collections.abc import Iterator
from functools import partial

from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.members import Protocol
from quorum_node.coordinator.requests import (
    Answer,
    Done,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    Sync,
    Synced,
)
from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.heartbeat import HeartbeatRequest, HeartbeatResponse
from quorum_node.protocol.join_group import JoinGroupMember, JoinGroupRequest, JoinGroupResponse
from quorum_node.protocol.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
)
from quorum_node.protocol.sync_group import SyncGroupRequest, SyncGroupResponse
from quorum_node.records.identity import uuid_text
from quorum_node.server.broker.group_coordinators import GroupCoordinators
from quorum_node.server.broker.group_errors import group_code
from quorum_node.server.listener.port import InboundRequest

_KNOWN_IDS_SINCE = 4
_NULL_PROTOCOL_SINCE = 7
_SKIPS_SINCE = 9
_PROTOCOL_IN_SYNC_SINCE = 5
"""First version of SyncGroup in which type and name of the protocol have to be given (KIP-559)."""
_MANY_LEAVE_SINCE = 3
_LEAVE_AT_ONCE = 1_000
"""Members that leave in one step, and so in one rebalance. A step of more would hold the loop."""
_NO_TIMEOUT = -1
_MAX_PREFIX_BYTES = 32_000
"""A member id is stored as a string, of which Kafka's limit is 32767 bytes."""


class GroupMembersApi:
    """The handler of requests from group members."""

    def __init__(self, coordinators: GroupCoordinators) -> None:
        self._coordinators = coordinators

    def join(self, inbound: InboundRequest, body: JoinGroupRequest) -> None:
        """Answer JoinGroup when the group's next generation begins, or earlier."""
        inbound.in_pieces(self._join(inbound, body))

    def _join(self, inbound: InboundRequest, body: JoinGroupRequest) -> Iterator[None]:
        protocols = []
        for each in body.protocols:
            protocols.append(Protocol(each.name, bytes(each.metadata)))
            yield
        version, client_id = inbound.request.version, inbound.request.client_id or ""
        rebalance_ms = body.rebalance_timeout_ms
        request = Join(
            request_id=self._coordinators.new_id(),
            group_id=body.group_id,
            member_id=body.member_id,
            instance_id=body.group_instance_id,
            client_id=client_id,
            client_host=f"/{inbound.caller.host}",
            protocol_type=body.protocol_type,
            protocols=tuple(protocols),
            session_timeout_ms=body.session_timeout_ms,
            rebalance_timeout_ms=(
                body.session_timeout_ms if rebalance_ms == _NO_TIMEOUT else rebalance_ms
            ),
            new_id=_new_id(body.group_instance_id or client_id),
            needs_known_id=version >= _KNOWN_IDS_SINCE,
            may_skip=version >= _SKIPS_SINCE,
        )

        def answered(answer: Answer) -> None:
            assert isinstance(answer, Joined)
            protocol = answer.protocol
            if protocol is None and version < _NULL_PROTOCOL_SINCE:
                protocol = ""
            inbound.reply(
                JoinGroupResponse(
                    error_code=group_code(answer.error),
                    generation_id=answer.generation,
                    protocol_type=answer.protocol_type,
                    protocol_name=protocol,
                    leader=answer.leader_id,
                    skip_assignment=answer.skip_assignment,
                    member_id=answer.member_id,
                    members=tuple(
                        JoinGroupMember(
                            member_id=each.member_id,
                            group_instance_id=each.instance_id,
                            metadata=each.metadata,
                        )
                        for each in answer.members
                    ),
                )
            )

        self._coordinators.ask(request, answered)

    def sync(self, inbound: InboundRequest, body: SyncGroupRequest) -> None:
        """Answer SyncGroup when the leader's assignments are stored, or earlier."""
        is_complete = None not in (body.protocol_type, body.protocol_name)
        if inbound.request.version >= _PROTOCOL_IN_SYNC_SINCE and not is_complete:
            error = group_code(GroupError.INCONSISTENT_GROUP_PROTOCOL)
            inbound.reply(SyncGroupResponse(error_code=error, assignment=b""))
            return
        inbound.in_pieces(self._sync(inbound, body))

    def _sync(self, inbound: InboundRequest, body: SyncGroupRequest) -> Iterator[None]:
        assignments = {}
        for each in body.assignments:
            assignments[each.member_id] = bytes(each.assignment)
            yield
        request = Sync(
            request_id=self._coordinators.new_id(),
            group_id=body.group_id,
            member_id=body.member_id,
            instance_id=body.group_instance_id,
            generation=body.generation_id,
            protocol_type=body.protocol_type,
            protocol=body.protocol_name,
            assignments=assignments,
        )

        def answered(answer: Answer) -> None:
            assert isinstance(answer, Synced)
            inbound.reply(
                SyncGroupResponse(
                    error_code=group_code(answer.error),
                    protocol_type=answer.protocol_type,
                    protocol_name=answer.protocol,
                    assignment=answer.assignment,
                )
            )

        self._coordinators.ask(request, answered)

    def heartbeat(self, inbound: InboundRequest, body: HeartbeatRequest) -> None:
        """Answer Heartbeat at once."""
        request = Heartbeat(
            self._coordinators.new_id(),
            body.group_id,
            body.member_id,
            body.group_instance_id,
            body.generation_id,
        )

        def answered(answer: Answer) -> None:
            assert isinstance(answer, Done)
            # A loading coordinator has not read the member yet. The member must not mistake this for its removal.
            error = answer.error
            if error is GroupError.COORDINATOR_LOAD_IN_PROGRESS:
                error = GroupError.NONE
            inbound.reply(HeartbeatResponse(error_code=group_code(error)))

        self._coordinators.ask(request, answered)

    def leave(self, inbound: InboundRequest, body: LeaveGroupRequest) -> None:
        """Answer LeaveGroup at once, or in pieces if there are many members."""
        inbound.in_pieces(self._leave(inbound, body))

    def _leave(self, inbound: InboundRequest, body: LeaveGroupRequest) -> Iterator[None]:
        is_many = inbound.request.version >= _MANY_LEAVE_SINCE
        asked = body.members if is_many else (LeavingMember(member_id=body.member_id),)
        # Also without members: the answer says whether the group is coordinated here.
        parts = [
            asked[at : at + _LEAVE_AT_ONCE] for at in range(0, len(asked) or 1, _LEAVE_AT_ONCE)
        ]
        left: list[LeftMember] = []
        missing, error = len(parts), ErrorCode.NONE

        def answered(leaving: tuple[LeavingMember, ...], answer: Answer) -> None:
            nonlocal missing, error
            assert isinstance(answer, Left)
            if answer.error is not GroupError.NONE:
                error = group_code(answer.error)
            for each, why in zip(leaving, answer.errors, strict=False):
                left.append(_left(each, why))
            missing -= 1
            if not missing:
                inbound.reply_made(lambda: _all_left(is_many, error, left))

        for part in parts:
            members = tuple((each.member_id, each.group_instance_id) for each in part)
            request = Leave(self._coordinators.new_id(), body.group_id, members)
            self._coordinators.ask(request, partial(answered, part))
            yield


def _left(member: LeavingMember, why: GroupError) -> LeftMember:
    return LeftMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        error_code=group_code(why),
    )


def _all_left(is_many: bool, error: ErrorCode, left: list[LeftMember]) -> LeaveGroupResponse:
    if is_many:
        return LeaveGroupResponse(
            error_code=error, members=() if error != ErrorCode.NONE else tuple(left)
        )
    return LeaveGroupResponse(error_code=error if error != ErrorCode.NONE else left[0].error_code)


def _new_id(prefix: str) -> str:
    """A new member id in the form of a stock broker: the instance id or client id, and a random part."""
    start = prefix.encode()[:_MAX_PREFIX_BYTES].decode(errors="ignore")
    return f"{start}-{uuid_text(fresh_uuid())}"
