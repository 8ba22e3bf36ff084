"""Dispatches the APIs of consumer groups, and WriteTxnMarkers, which may commit offsets, to their handlers."""

from collections.abc import Callable, Mapping
from typing import Any

from quorum_node.controller.authorization import UNRESTRICTED, ListedRights
from quorum_node.protocol.delete_groups import DeleteGroupsRequest
from quorum_node.protocol.describe_groups import DescribeGroupsRequest
from quorum_node.protocol.heartbeat import HeartbeatRequest
from quorum_node.protocol.join_group import JoinGroupRequest
from quorum_node.protocol.leave_group import LeaveGroupRequest
from quorum_node.protocol.list_groups import ListGroupsRequest
from quorum_node.protocol.offset_commit import OffsetCommitRequest
from quorum_node.protocol.offset_delete import OffsetDeleteRequest
from quorum_node.protocol.offset_fetch import OffsetFetchRequest
from quorum_node.protocol.sync_group import SyncGroupRequest
from quorum_node.protocol.write_txn_markers import WriteTxnMarkersRequest
from quorum_node.schema.schema import Message
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.group_admin_api import GroupAdminApi
from quorum_node.server.broker.group_coordinators import GroupCoordinators
from quorum_node.server.broker.group_members_api import GroupMembersApi
from quorum_node.server.broker.group_offsets_api import GroupOffsetsApi
from quorum_node.server.broker.transaction_markers_api import TransactionMarkersApi
from quorum_node.server.listener.port import InboundRequest


class GroupApi:
    """The dispatcher of one broker."""

    def __init__(self, replicas: AssignedReplicas, coordinators: GroupCoordinators) -> None:
        members = GroupMembersApi(coordinators)
        offsets = GroupOffsetsApi(replicas, coordinators)
        admin = GroupAdminApi(coordinators)
        self._handlers: Mapping[type[Message], Callable[[InboundRequest, Any], None]] = {
            JoinGroupRequest: members.join,
            SyncGroupRequest: members.sync,
            HeartbeatRequest: members.heartbeat,
            LeaveGroupRequest: members.leave,
            WriteTxnMarkersRequest: TransactionMarkersApi(replicas, coordinators).handle,
        }
        self._by_item: Mapping[
            type[Message], Callable[[InboundRequest, Any, ListedRights], None]
        ] = {
            OffsetCommitRequest: offsets.commit,
            OffsetFetchRequest: offsets.fetch,
            OffsetDeleteRequest: offsets.delete,
            DescribeGroupsRequest: admin.describe,
            ListGroupsRequest: admin.list,
            DeleteGroupsRequest: admin.delete,
        }
        """Handlers of requests whose groups or topics are authorized one by one."""

    def handle(
        self, inbound: InboundRequest, body: Message, rights: ListedRights = UNRESTRICTED
    ) -> bool:
        """Answer the request now or later. Returns False if it does not concern groups.

        A request for one group is authorized for the group before (`group_rights`).
        """
        by_item = self._by_item.get(type(body))
        if by_item is not None:
            by_item(inbound, body, rights)
            return True
        handler = self._handlers.get(type(body))
        if handler is not None:
            handler(inbound, body)
        return handler is not None
