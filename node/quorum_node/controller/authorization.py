"""Who may do what, by the access control entries of the image. PURE.

Owns the rule of Kafka's own authorizer (KIP-11, KIP-290): whoever is a super user may; who is denied may not; who is
allowed may; where nothing at all is said of a resource, the configuration decides. Must not know requests.
K631-12: without an authorizer everything is allowed, and a firewall has to keep clients away from the listener.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from quorum_node.image.access import AclsImage
from quorum_node.records.metadata import AccessControlEntryRecord

CLUSTER_NAME = "kafka-cluster"
WILDCARD = "*"


class AclOperation(IntEnum):
    """Kafka's numbers."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class AclResource(IntEnum):
    """Kafka's numbers of kinds of resources."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


_LITERAL, _PREFIXED = 3, 4
_DENY, _ALLOW = 2, 3

_IMPLIED_BY = {
    AclOperation.DESCRIBE: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
"""Who may do one of these may do that; being denied one of them denies nothing else."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the principal in Kafka's text form (`User:alice`), and from where."""

    principal: str
    host: str
    listener: str


ANONYMOUS = Caller("User:ANONYMOUS", "", "CONTROLLER")
NOBODY = Caller("", "", "")
"""The controller itself, for maintenance."""


@dataclass(frozen=True, slots=True)
class AuthorizerSettings:
    """`authorizer.class.name`, `super.users`, `allow.everyone.if.no.acl.found`."""

    enabled: bool = False
    super_users: frozenset[str] = frozenset()
    allow_if_nothing_is_said: bool = False


NO_AUTHORIZER = AuthorizerSettings()


def is_allowed(
    settings: AuthorizerSettings,
    acls: AclsImage,
    caller: Caller,
    operation: AclOperation,
    resource: AclResource,
    name: str = CLUSTER_NAME,
) -> bool:
    """Whether the caller may do it."""
    if not settings.enabled or caller.principal in settings.super_users:
        return True
    said, allowed = False, False
    implied_by = _IMPLIED_BY.get(operation, ())
    for entry in _about(acls, resource, name):
        said = True
        if entry.principal not in (caller.principal, _anyone(caller)):
            continue
        if entry.host not in (caller.host, WILDCARD):
            continue
        exact = entry.operation in (operation, AclOperation.ALL)
        if entry.permission_type == _DENY and exact:
            return False
        if entry.permission_type == _ALLOW and (exact or entry.operation in implied_by):
            allowed = True
    return allowed or (not said and settings.allow_if_nothing_is_said)


def _about(acls: AclsImage, resource: AclResource, name: str) -> Iterator[AccessControlEntryRecord]:
    for entry in acls:
        if entry.resource_type != resource:
            continue
        if (entry.pattern_type == _LITERAL and entry.resource_name in (name, WILDCARD)) or (
            entry.pattern_type == _PREFIXED and name.startswith(entry.resource_name)
        ):
            yield entry


def _anyone(caller: Caller) -> str:
    """`User:*` means every principal of that type."""
    return f"{caller.principal.partition(':')[0]}:{WILDCARD}"
