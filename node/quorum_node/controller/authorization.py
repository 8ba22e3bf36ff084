"""Whether a caller may do something, in the form that the commands of the controller ask it. PURE.

Owns the question alone. The answer comes with the request (`security/rights/door.py`); what nobody asked for, such as
maintenance, is not restricted.
K631-12: without an authorizer everything is allowed, and a firewall has to keep clients away from the listener.
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
    """What whoever sent this very request may do within it."""

    def allows(
        self, operation: AclOperation, resource: AclResource, name: str = CLUSTER_NAME
    ) -> bool:
        """Whether the caller may do it."""


class _Unrestricted:
    """Everything."""

    def allows(
        self, operation: AclOperation, resource: AclResource, name: str = CLUSTER_NAME
    ) -> bool:
        """See `Rights`."""
        return True


UNRESTRICTED: Rights = _Unrestricted()
"""Without an authorizer, and for the controller itself."""
