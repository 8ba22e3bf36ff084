"""Authorization checks, in the form that the controller's commands use. PURE.

Owns the question only. The answer comes with the request (`security/rights/request_authorizer.py`). Internal
commands such as maintenance are not restricted.
K631-12: without an authorizer everything is allowed, and a firewall has to keep clients away from
the listener.
"""

from typing import Protocol

from quorum_node.security.acl_terms import CLUSTER_NAME, WILDCARD, AclOperation, AclResource
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
    "Rights",
]


class Rights(Protocol):
    """The permissions of the sender of a request."""

    def allows(
        self, operation: AclOperation, resource: AclResource, name: str = CLUSTER_NAME
    ) -> bool:
        """Whether the caller may do it."""


class _Unrestricted:
    """Allows everything."""

    def allows(
        self, operation: AclOperation, resource: AclResource, name: str = CLUSTER_NAME
    ) -> bool:
        """See `Rights`."""
        return True


UNRESTRICTED: Rights = _Unrestricted()
"""Used without an authorizer, and for the controller itself."""
