"""Authorization checks, in the form that the controller's commands use. PURE.

Owns the question only. The answer comes with the request (`security/rights/request_authorizer.py`). Internal
commands such as maintenance are not restricted.
K631-12: without an authorizer everything is allowed, and a firewall has to keep clients away from
the listener.
"""

from typing import Protocol

from quorum_node.security.acl_terms import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    WILDCARD,
    AclOperation,
    AclResource,
)
from quorum_node.security.caller import ANONYMOUS, NOBODY, Caller

__all__ = [
    "ANONYMOUS",
    "CLUSTER_NAME",
    "NOBODY",
    "UNRESTRICTED",
    "WILDCARD",
    "AclOperation",
    "AclResource",
    "Caller",
    "ListedRights",
    "Rights",
]


class Rights(Protocol):
    """The permissions of the sender of a request."""

    def allows(
        self, operation: AclOperation, resource: AclResource, name: str = CLUSTER_NAME
    ) -> bool:
        """Whether the caller may do it."""


class ListedRights(Rights, Protocol):
    """Rights that can be listed: what brokers report, and what they check where a request names no resource."""

    def allows_any(self, operation: AclOperation, resource: AclResource) -> bool:
        """Whether the caller may do it with at least one resource of this type, which need not exist."""

    def operations(
        self, resource: AclResource, name: str = CLUSTER_NAME
    ) -> frozenset[AclOperation]:
        """The operations that the caller may do with the resource, regardless of its role in this request."""


class _Unrestricted:
    """Allows everything."""

    def allows(
        self, operation: AclOperation, resource: AclResource, name: str = CLUSTER_NAME
    ) -> bool:
        """See `Rights`."""
        return True

    def allows_any(self, operation: AclOperation, resource: AclResource) -> bool:
        """See `ListedRights`."""
        return True

    def operations(
        self, resource: AclResource, name: str = CLUSTER_NAME
    ) -> frozenset[AclOperation]:
        """See `ListedRights`."""
        return OPERATIONS_OF[resource]


UNRESTRICTED: ListedRights = _Unrestricted()
"""Used without an authorizer, and for the controller itself."""
