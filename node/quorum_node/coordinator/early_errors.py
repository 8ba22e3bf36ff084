"""Errors of requests that a coordinator refuses without knowing the group. PURE.

Owns the checks that come before the one whether this broker coordinates the group, so that a client learns of a wrong request
from any broker. Must not know groups.
Source: the rules of a stock broker's GroupCoordinatorService. Offsets can be committed for the group with the empty name, which clients
without a group used.
"""

from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.requests import CommitOffsets, DeleteGroup, Join, Request
from quorum_node.coordinator.settings import GroupSettings


def early_error(request: Request, settings: GroupSettings) -> GroupError:
    """The error, or NONE."""
    if isinstance(request, CommitOffsets | DeleteGroup):
        return GroupError.NONE
    if not request.group_id:
        return GroupError.INVALID_GROUP_ID
    if isinstance(request, Join):
        shortest, longest = settings.min_session_timeout_ms, settings.max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            return GroupError.INVALID_SESSION_TIMEOUT
    return GroupError.NONE
