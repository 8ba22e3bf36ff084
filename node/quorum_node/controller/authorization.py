"""Whether a caller may do something, for the commands of the controller. PURE.

The rule, its terms and its settings are those of `security/`; here is the question in the form that commands ask it.
K631-12: without an authorizer everything is allowed, and a firewall has to keep clients away from the listener.
"""

from quorum_node.image.access import AclsImage
from quorum_node.security.acl_terms import CLUSTER_NAME, WILDCARD, AclOperation, AclResource
from quorum_node.security.authorizer import NO_AUTHORIZER, AuthorizerSettings, authorize
from quorum_node.security.caller import ANONYMOUS, NOBODY, Caller

__all__ = [
    "ANONYMOUS",
    "CLUSTER_NAME",
    "NOBODY",
    "NO_AUTHORIZER",
    "WILDCARD",
    "AclOperation",
    "AclResource",
    "AuthorizerSettings",
    "Caller",
    "is_allowed",
]


def is_allowed(
    settings: AuthorizerSettings,
    acls: AclsImage,
    caller: Caller,
    operation: AclOperation,
    resource: AclResource,
    name: str = CLUSTER_NAME,
) -> bool:
    """Whether the caller may do it."""
    return authorize(settings, acls, caller, operation, resource, name).allowed
