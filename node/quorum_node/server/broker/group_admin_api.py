"""DescribeGroups, ListGroups and DeleteGroups: administrators' requests to group coordinators.

Source: the rules of a stock broker for DescribeGroups 0 to 6, ListGroups 0 to 5 and DeleteGroups 0 to 2; KIP-518, KIP-1043.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from quorum_node.controller.authorization import (
    UNRESTRICTED,
    AclOperation,
    AclResource,
    ListedRights,
    Rights,
)
from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.group import GroupState
from quorum_node.coordinator.requests import Answer, DeleteGroup, Done
from quorum_node.protocol import describe_groups, list_groups
from quorum_node.protocol.delete_groups import (
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from quorum_node.protocol.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.list_groups import ListGroupsRequest, ListGroupsResponse
from quorum_node.server.broker.authorized_operations import authorized_operations
from quorum_node.server.broker.group_coordinators import GroupCoordinators
from quorum_node.server.broker.group_errors import group_code
from quorum_node.server.listener.port import InboundRequest

_NOT_FOUND_SINCE = 6
"""First version with GROUP_ID_NOT_FOUND; in earlier versions a group that does not exist is described as dead."""
_CLASSIC = "classic"


class GroupAdminApi:
    """The handler of these requests, for all groups whose coordinator is this broker."""

    def __init__(self, coordinators: GroupCoordinators) -> None:
        self._coordinators = coordinators

    def describe(
        self,
        inbound: InboundRequest,
        body: DescribeGroupsRequest,
        rights: ListedRights = UNRESTRICTED,
    ) -> None:
        """Answer DescribeGroups at once, or in pieces. Each group needs DESCRIBE."""
        inbound.use_thread()
        inbound.in_pieces(self._describe_all(inbound, body, rights))

    def _describe_all(
        self, inbound: InboundRequest, body: DescribeGroupsRequest, rights: ListedRights
    ) -> Iterator[None]:
        version, groups = inbound.request.version, []
        # Repeated names are dropped: a large group, repeated thousands of times, would fill the memory.
        for group_id in dict.fromkeys(body.groups):
            if rights.allows(AclOperation.DESCRIBE, AclResource.GROUP, group_id):
                each = self._describe(group_id, version)
            else:
                each = _error(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            if body.include_authorized_operations and not each.error_code:
                each = _with_operations(each, rights)
            groups.append(each)
            yield
        inbound.reply(DescribeGroupsResponse(groups=tuple(groups)))

    def _describe(self, group_id: str, version: int) -> describe_groups.DescribedGroup:
        led = self._coordinators.of(group_id)
        error = led if isinstance(led, GroupError) else GroupError.NONE
        found = None if isinstance(led, GroupError) else led.table.describe(group_id)
        if found is None:
            is_missing = error is GroupError.NONE
            if is_missing and version >= _NOT_FOUND_SINCE:
                error = GroupError.GROUP_ID_NOT_FOUND
            return _error(
                group_id,
                group_code(error),
                text=f"Group {group_id} not found."
                if is_missing and version >= _NOT_FOUND_SINCE
                else None,
                state=GroupState.DEAD.value if is_missing else "",
            )
        return describe_groups.DescribedGroup(
            error_code=ErrorCode.NONE,
            group_id=group_id,
            group_state=found.state,
            protocol_type=found.protocol_type,
            protocol_data=found.protocol,
            members=tuple(
                describe_groups.DescribedGroupMember(
                    member_id=each.member_id,
                    group_instance_id=each.instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    member_metadata=each.metadata,
                    member_assignment=each.assignment,
                )
                for each in found.members
            ),
        )

    def list(
        self, inbound: InboundRequest, body: ListGroupsRequest, rights: Rights = UNRESTRICTED
    ) -> None:
        """Answer ListGroups at once, or in pieces. The filters ignore case.

        A caller with DESCRIBE on the cluster sees all groups, another one those that it may describe.
        """
        inbound.use_thread()
        inbound.in_pieces(self._list(inbound, body, rights))

    def _list(
        self, inbound: InboundRequest, body: ListGroupsRequest, rights: Rights
    ) -> Iterator[None]:
        sees_all = rights.allows(AclOperation.DESCRIBE, AclResource.CLUSTER)
        states = {each.lower() for each in body.states_filter}
        types = {each.lower() for each in body.types_filter}
        error, found = ErrorCode.NONE, []
        for led in tuple(self._coordinators.led()):
            if not led.is_ready:
                error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                continue
            for group in tuple(led.table.groups.values()):
                yield
                if led.table.groups.get(group.group_id) is not group:
                    continue  # removed meanwhile
                if states and group.state.value.lower() not in states:
                    continue
                if types and _CLASSIC not in types:
                    continue
                if not sees_all and not rights.allows(
                    AclOperation.DESCRIBE, AclResource.GROUP, group.group_id
                ):
                    continue
                found.append(
                    list_groups.ListedGroup(
                        group_id=group.group_id,
                        protocol_type=group.protocol_type or "",
                        group_state=group.state.value,
                        group_type=_CLASSIC,
                    )
                )
        if error != ErrorCode.NONE:
            found = []
        inbound.reply(ListGroupsResponse(error_code=error, groups=tuple(found)))

    def delete(
        self, inbound: InboundRequest, body: DeleteGroupsRequest, rights: Rights = UNRESTRICTED
    ) -> None:
        """Answer DeleteGroups once all tombstones are stored. Each group needs DELETE."""
        inbound.in_pieces(self._delete(inbound, body, rights))

    def _delete(
        self, inbound: InboundRequest, body: DeleteGroupsRequest, rights: Rights
    ) -> Iterator[None]:
        names = tuple(dict.fromkeys(body.groups_names))
        errors: dict[str, ErrorCode] = {}

        def answered(name: str, answer: Answer) -> None:
            assert isinstance(answer, Done)
            done(name, group_code(answer.error))

        def done(name: str, error: ErrorCode) -> None:
            errors[name] = error
            if len(errors) == len(names):
                inbound.reply_made(lambda: _deleted(names, errors))

        if not names:
            inbound.reply(DeleteGroupsResponse(results=()))
        for name in names:
            if rights.allows(AclOperation.DELETE, AclResource.GROUP, name):
                request = DeleteGroup(self._coordinators.new_id(), name)
                self._coordinators.ask(request, lambda answer, name=name: answered(name, answer))  # type: ignore[misc]
            else:
                done(name, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            yield


def _deleted(names: tuple[str, ...], errors: Mapping[str, ErrorCode]) -> DeleteGroupsResponse:
    results = tuple(DeletedGroup(group_id=name, error_code=errors[name]) for name in names)
    return DeleteGroupsResponse(results=results)


def _with_operations(
    group: describe_groups.DescribedGroup, rights: ListedRights
) -> describe_groups.DescribedGroup:
    operations = authorized_operations(rights, AclResource.GROUP, group.group_id)
    return replace(group, authorized_operations=operations)


def _error(
    group_id: str, code: ErrorCode, *, text: str | None = None, state: str = ""
) -> describe_groups.DescribedGroup:
    return describe_groups.DescribedGroup(
        error_code=code,
        error_message=text,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=(),
    )
