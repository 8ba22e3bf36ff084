"""Whether a caller may do an operation on at least one resource of a type, whether such a resource exists or not. PURE.

Owns the rule (KIP-679): an allowing entry counts unless a denying one covers its whole pattern. Operations that imply the requested
one do not count, as in `Authorizer.authorizeByResourceType` of stock Kafka.
"""

from collections.abc import Iterable, Iterator

from quorum_node.image.access import AclsImage
from quorum_node.image.acl_index import LITERAL, PREFIXED
from quorum_node.image.host_text import host_text
from quorum_node.records.metadata import AccessControlEntryRecord
from quorum_node.security.acl_terms import (
    ANYBODY,
    WILDCARD,
    AclOperation,
    AclPermission,
    AclResource,
)
from quorum_node.security.authorizer import AuthorizerSettings, authorize
from quorum_node.security.caller import Caller

_Pattern = tuple[int, str]
_A_NAME = "hardcode"
"""The name that a stock broker asks for first, because of super users and of resources without entries."""


def allowed_on_any(
    settings: AuthorizerSettings,
    acls: AclsImage,
    caller: Caller,
    operation: AclOperation,
    resource: AclResource,
    *,
    loaded: bool = True,
) -> bool:
    """Whether there may be a resource on which the caller is allowed the operation."""
    if authorize(settings, acls, caller, operation, resource, _A_NAME, loaded=loaded).allowed:
        return True
    if not loaded:
        return False
    allowed: set[_Pattern] = set()
    denied: set[_Pattern] = set()
    for entry in _about(acls, caller, resource):
        if entry.operation in (operation, AclOperation.ALL):
            is_allowed = entry.permission_type == AclPermission.ALLOW
            (allowed if is_allowed else denied).add((entry.pattern_type, entry.resource_name))
    if (LITERAL, WILDCARD) in denied:
        return False
    return any(not _is_covered(each, denied) for each in allowed)


def _about(
    acls: AclsImage, caller: Caller, resource: AclResource
) -> Iterator[AccessControlEntryRecord]:
    """The entries of all resources of the type that are for this caller."""
    for who in {caller.principal, ANYBODY}:
        for at in (host_text(caller.host), WILDCARD):
            yield from acls.index.of_caller(resource, who, at)


def _is_covered(pattern: _Pattern, denied: set[_Pattern]) -> bool:
    if pattern == (LITERAL, WILDCARD):
        return False
    return pattern in denied or any((PREFIXED, each) in denied for each in _prefixes(pattern[1]))


def _prefixes(name: str) -> Iterable[str]:
    return (name[:length] for length in range(1, len(name) + 1))
